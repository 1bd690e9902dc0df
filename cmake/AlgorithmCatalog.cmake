# Lists the algorithms, so that a new algorithm is only a new file. Every .cpp file of src/algorithms without a header of
# its own is an algorithm, and defines `Algorithm NAME()` for its name.
#
# plait_algorithm_catalog(<target>) adds steps/*.cpp and a generated source with that list to the target of
# src/algorithms. CMake makes the list, and runs again when a file is added or removed.
function(plait_algorithm_catalog target)
  set(folder "${PROJECT_SOURCE_DIR}/src/algorithms")
  file(GLOB steps CONFIGURE_DEPENDS "${folder}/steps/*.cpp")
  file(GLOB files CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(SORT files)
  set(declarations "")
  set(calls "")
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WE)
    if(EXISTS "${folder}/${name}.hpp")
      continue()
    endif()
    string(APPEND declarations "Algorithm ${name}();\n")
    string(APPEND calls "      ${name}(),\n")
  endforeach()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/algorithm_catalog.cpp")
  file(GENERATE OUTPUT "${output}" CONTENT
    "// Written by cmake/AlgorithmCatalog.cmake from the names of src/algorithms/*.cpp.
#include \"algorithms/algorithm.hpp\"

namespace plait {

${declarations}
std::vector<Algorithm> internal::algorithm_catalog() {
  return {
${calls}  };
}

}  // namespace plait
")
  target_sources(${target} PRIVATE ${steps} "${output}")
endfunction()
