#include "topology/xml.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':' || byte >= 0x80;
}

// Shows text that may hold anything in a message.
std::string excerpt(std::string_view text) {
  if (text.empty()) return "the end of the text";
  std::string shown;
  for (const char c : text.substr(0, 20)) {
    if (c == '\n') break;
    const auto byte = static_cast<unsigned char>(c);
    shown += byte >= 0x20 && byte < 0x7f ? c : '?';
  }
  return "\"" + shown + "\"";
}

class XmlParser {
 public:
  XmlParser(std::string_view text, const std::string& file, const XmlLimits& limits)
      : text_(text), file_(file), limits_(limits) {}

  XmlElement parse_document() {
    if (starts_with("\xef\xbb\xbf")) position_ += 3;
    skip_between_elements(true);
    if (peek() != '<') fail_expected("an element");
    XmlElement root = parse_element(0);
    skip_between_elements(true);
    if (position_ < text_.size()) fail_expected("the end of the text");
    return root;
  }

 private:
  [[noreturn]] void fail_expected(const std::string& expected) const {
    fail(ErrorCode::kInvalidInput, file_, ":", line_, ": expected ", expected, ", found ",
         excerpt(text_.substr(position_)));
  }

  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  bool starts_with(std::string_view what) const { return text_.substr(position_, what.size()) == what; }

  void advance(size_t count) {
    const size_t end = std::min(text_.size(), position_ + count);
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(position_),
                                         text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    position_ = end;
  }

  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) advance(1);
  }

  // Skips to just behind `close`.
  void skip_past(std::string_view close, const char* what) {
    const size_t found = text_.find(close, position_);
    if (found == std::string_view::npos) fail_expected(join("the end \"", close, "\" of ", what));
    advance(found + close.size() - position_);
  }

  // Stops at the '<' of an element or a closing tag, or at the end. Outside the root, only white space may be between
  // them.
  void skip_between_elements(bool outside_root) {
    for (;;) {
      if (outside_root) {
        skip_space();
      } else {
        const size_t found = text_.find('<', position_);
        advance((found == std::string_view::npos ? text_.size() : found) - position_);
      }
      if (starts_with("<!--")) {
        skip_past("-->", "a comment");
      } else if (starts_with("<?")) {
        skip_past("?>", "a processing instruction");
      } else if (starts_with("<![CDATA[") && !outside_root) {
        skip_past("]]>", "a CDATA section");
      } else if (starts_with("<!")) {
        fail_expected("an element (document types and entities are not supported)");
      } else {
        return;
      }
    }
  }

  std::string parse_name(const char* what) {
    const size_t start = position_;
    while (position_ < text_.size() && is_name_character(text_[position_])) ++position_;
    if (position_ == start) fail_expected(what);
    return std::string(text_.substr(start, position_ - start));
  }

  // Parses one of the five entities, or a character number. Numbers beyond ASCII become '?', since no topology needs
  // them.
  char parse_entity() {
    static constexpr std::pair<std::string_view, char> kEntities[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (const auto& [text, character] : kEntities) {
      if (!starts_with(text)) continue;
      position_ += text.size();
      return character;
    }
    if (!starts_with("&#")) fail_expected("one of the entities &lt; &gt; &amp; &quot; &apos;");
    const bool hexadecimal = text_.substr(position_ + 2, 1) == "x";
    const char* first = text_.data() + position_ + (hexadecimal ? 3 : 2);
    const char* last = text_.data() + text_.size();
    unsigned code = 0;
    const auto [end, error] = std::from_chars(first, last, code, hexadecimal ? 16 : 10);
    if (error != std::errc() || end == last || *end != ';') fail_expected("a character number such as &#65;");
    position_ = static_cast<size_t>(end - text_.data()) + 1;
    return code >= 0x20 && code < 0x7f ? static_cast<char>(code) : '?';
  }

  std::string parse_attribute_text() {
    const char quote = peek();
    if (quote != '"' && quote != '\'') fail_expected("an attribute's text in quotes");
    advance(1);
    std::string value;
    while (position_ < text_.size() && peek() != quote) {
      const char c = peek();
      if (c == '<') fail_expected("the closing quote of an attribute");
      if (c == '&') {
        value += parse_entity();
      } else {
        value += c;
        advance(1);
      }
    }
    if (position_ >= text_.size()) fail_expected("the closing quote of an attribute");
    advance(1);
    return value;
  }

  // Parses the attributes up to, but not including, '>' or '/>'.
  void parse_attributes(XmlElement& element) {
    for (;;) {
      const bool separated = is_space(peek());
      skip_space();
      const char c = peek();
      if (c == '>' || c == '/') return;
      if (!separated) fail_expected("white space, '>' or '/>'");
      if (element.attributes.size() == limits_.max_attributes) {
        fail_expected(join("at most ", limits_.max_attributes, " attributes of an element"));
      }
      std::string name = parse_name("an attribute, '>' or '/>'");
      if (element.find(name)) fail_expected(join("each attribute once (", name, " is there twice) before this"));
      skip_space();
      if (peek() != '=') fail_expected(join("'=' after attribute ", name));
      advance(1);
      skip_space();
      std::string value = parse_attribute_text();
      element.attributes.emplace_back(std::move(name), std::move(value));
    }
  }

  XmlElement parse_element(int depth) {
    if (depth >= limits_.max_depth)
      fail_expected(join("at most ", counted(limits_.max_depth, "level"), " of elements"));
    if (++elements_ > limits_.max_elements) fail_expected(join("at most ", counted(limits_.max_elements, "element")));
    XmlElement element;
    element.line = line_;
    advance(1);
    element.name = parse_name("an element's name after '<'");
    parse_attributes(element);
    if (starts_with("/>")) {
      advance(2);
      return element;
    }
    if (peek() != '>') fail_expected("'>' or '/>'");
    advance(1);
    parse_children(element, depth);
    return element;
  }

  void parse_children(XmlElement& element, int depth) {
    const auto fail_to_close = [&] {
      fail_expected(join("</", element.name, "> (opened in line ", element.line, ")"));
    };
    for (;;) {
      skip_between_elements(false);
      if (position_ >= text_.size()) fail_to_close();
      if (!starts_with("</")) {
        element.children.push_back(parse_element(depth + 1));
        continue;
      }
      const std::string_view rest = text_.substr(position_ + 2);
      if (rest.substr(0, element.name.size()) != element.name) fail_to_close();
      const size_t after = position_ + 2 + element.name.size();
      if (after < text_.size() && is_name_character(text_[after])) fail_to_close();
      advance(2 + element.name.size());
      skip_space();
      if (peek() != '>') fail_expected("'>'");
      advance(1);
      return;
    }
  }

  std::string_view text_;
  const std::string& file_;
  const XmlLimits& limits_;
  size_t position_ = 0;
  size_t elements_ = 0;
  int line_ = 1;
};

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes) {
    if (key == attribute) return &value;
  }
  return nullptr;
}

XmlElement parse_xml(std::string_view text, const std::string& file, const XmlLimits& limits) {
  return XmlParser(text, file, limits).parse_document();
}

}  // namespace plait
