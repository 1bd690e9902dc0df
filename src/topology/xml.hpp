// Parses the part of XML that topology files use: elements and attributes. Comments, the prolog, processing
// instructions, CDATA and text between elements are skipped. Document types are refused, so there are no entities but
// the five built-in ones and character numbers, and nothing can expand.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plait {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  int line = 0;

  // Returns the attribute's text; null if it is missing.
  const std::string* find(std::string_view attribute) const;
};

struct XmlLimits {
  int max_depth = 64;
  size_t max_elements = 1'000'000;
  size_t max_attributes = 64;  // of one element, each of which is compared with all others
};

// Parses one document. Throws kInvalidInput, `FILE:LINE: expected X, found Y`; `file` is only used in messages.
XmlElement parse_xml(std::string_view text, const std::string& file, const XmlLimits& limits = {});

}  // namespace plait
