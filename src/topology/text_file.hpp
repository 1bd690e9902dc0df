// Reads a whole text file, and refuses what users meet: no such file, a directory, a file that is too large or not
// UTF-8.
#pragma once

#include <cstddef>
#include <string>

namespace plait {

// Reads at most `max_bytes`; a larger file fails before more than that is held. Fails with kInvalidInput. "-" is
// standard input.
std::string read_text_file(const std::string& path, size_t max_bytes);

}  // namespace plait
