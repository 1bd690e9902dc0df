#include "topology/xml.hpp"

#include <gtest/gtest.h>

#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

std::string refusal_of_xml(const std::string& text) {
  return error_of([&] { parse_xml(text, "file.xml"); });
}

TEST(Xml, ReadsElementsAttributesAndLines) {
  const XmlElement root = parse_xml(
      "\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <not> an element -->\n<a one=\"1\" two = 'x "
      "&lt;&amp;&gt;&quot;&apos;&#65;&#x42;'>\n"
      "text &anything; here<b/><!-- c --><b c=''></b>\n<![CDATA[<d>]]><?pi?></a >\n\n",
      "file.xml");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.line, 3);
  EXPECT_EQ(*root.find("one"), "1");
  EXPECT_EQ(*root.find("two"), "x <&>\"'AB");
  EXPECT_EQ(root.find("three"), nullptr);
  ASSERT_EQ(root.children.size(), 2u);
  EXPECT_EQ(root.children[0].line, 4);
  EXPECT_EQ(*root.children[1].find("c"), "");
}

TEST(Xml, SaysWhereWhatWasExpectedAndFound) {
  EXPECT_EQ(refusal_of_xml(""), "file.xml:1: expected an element, found the end of the text");
  EXPECT_EQ(refusal_of_xml("<a>\n<b>\n</a>"), "file.xml:3: expected </b> (opened in line 2), found \"</a>\"");
  EXPECT_EQ(refusal_of_xml("<a>\n"), "file.xml:2: expected </a> (opened in line 1), found the end of the text");
  EXPECT_EQ(refusal_of_xml("<a b=1/>"), "file.xml:1: expected an attribute's text in quotes, found \"1/>\"");
  EXPECT_EQ(refusal_of_xml("<a/>\n<b/>"), "file.xml:2: expected the end of the text, found \"<b/>\"");
}

TEST(Xml, RefusesWhatIsNotXml) {
  for (const char* text : {"<",
                           "<a",
                           "<a/",
                           "<a b",
                           "<a b=",
                           "<a b=\"",
                           "<a b=\"<\"/>",
                           "<a b='1' b='2'/>",
                           "<a b='1'c='2'/>",
                           "<a b='&nbsp;'/>",
                           "<a b='&#;'/>",
                           "<a b='&#99999999999;'/>",
                           "<1/",
                           "< a/>",
                           "</a>",
                           "<a></ab>",
                           "<a></a",
                           "<a><!-- </a>",
                           "<?xml",
                           "text",
                           "<a/>text",
                           "<a><b></a></b>",
                           "\x01\x02\xff",
                           "<a \xff>"}) {
    SCOPED_TRACE(text);
    refusal_of_xml(text);
  }
}

TEST(Xml, HasNoEntitiesThatCouldExpand) {
  const std::string message =
      refusal_of_xml("<!DOCTYPE lolz [<!ENTITY lol \"lol\"><!ENTITY lol2 \"&lol;&lol;\">]>\n<system a=\"&lol2;\"/>");
  expect_contains(message, "file.xml:1: expected an element (document types and entities are not supported)");
}

TEST(Xml, BoundsDepthAndCount) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  expect_contains(refusal_of_xml(deep), "at most 64 levels");
  std::string many = "<a>";
  for (int i = 0; i < 100; ++i) many += "<b/>";
  many += "</a>";
  EXPECT_NO_THROW(parse_xml(many, "file.xml"));
  expect_contains(error_of([&] { parse_xml(many, "file.xml", {64, 50}); }), "at most 50 elements");
  std::string wide = "<a";
  for (int i = 0; i < 64; ++i) wide += " b" + std::to_string(i) + "=''";
  EXPECT_EQ(parse_xml(wide + "/>", "file.xml").attributes.size(), 64u);
  // Refused at the first one above the limit, so that a million of them take no time.
  expect_contains(refusal_of_xml(wide + " c='1' 'no XML any more"), "expected at most 64 attributes of an element");
}

}  // namespace
}  // namespace plait
