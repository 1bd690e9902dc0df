// Threads that the library starts for itself.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace plait {

// Starts one. It takes no signals, so that the program's handlers run on the program's own threads. Throws kResources
// if there can be no more threads; `purpose` says then for what it was: "the network".
std::thread start_library_thread(std::string_view purpose, std::function<void()> run);

}  // namespace plait
