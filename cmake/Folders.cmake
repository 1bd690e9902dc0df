# Each folder of src/ is a static library, so that a folder that uses one beyond its walls fails to link.
# plait_folder(<folder> [dependency...]) takes every .cpp file of src/<folder>, and with CUDA every .cu file.
function(plait_folder folder)
  string(REPLACE "/" "_" name "plait_${folder}")
  set(patterns "${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp")
  if(PLAIT_HAVE_CUDA)
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/src/${folder}/*.cu")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} PUBLIC ${ARGN})
    if(PLAIT_SANITIZE OR PLAIT_UNITY)  # takes half the time; other builds check that each file includes what it needs
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
      target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)  # for local types
      set(kernels ${sources})
      list(FILTER kernels INCLUDE REGEX "\\.cu$")  # each as in other builds, which ccache then has
      set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${name} INTERFACE ${ARGN})
  endif()
endfunction()

# plait_tests(<folder of tests/> <library>...): makes a program of each *_test.cpp there, which ctest runs. The targets
# tests_unit, tests_property and so on build all programs of such a folder and of those below it. Where several files of
# the library are compiled as one, so are those of folders whose tests start no ranks and count no threads: they
# make one program, <folder>_tests, which ctest starts four times, for a quarter of the tests each.
#
# GoogleTest's header takes longer to compile than most tests, so it is precompiled once for all programs with the same
# options. A target with other options must also set DISABLE_PRECOMPILE_HEADERS.
set(PLAIT_TESTS_TOGETHER unit/base unit/topology unit/plan unit/algorithms unit/model unit/model/closed_forms
                         unit/model/simulator unit/tuner unit/api)

function(plait_tests folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cpp")
  if((PLAIT_SANITIZE OR PLAIT_UNITY) AND folder IN_LIST PLAIT_TESTS_TOGETHER)
    string(REPLACE "/" "_" name "${folder}_tests")
    plait_test_program(${folder} ${name} "${sources}" ${ARGN})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    foreach(quarter 0 1 2 3)
      plait_add_test("${folder}/${name}/${quarter}" ${name})
      set_tests_properties("${folder}/${name}/${quarter}" PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${quarter}")
    endforeach()
    return()
  endif()
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    plait_test_program(${folder} ${name} "${source}" ${ARGN})
    plait_add_test("${folder}/${name}" ${name})
  endforeach()
endfunction()

# plait_test_program(<folder of tests/> <name> <sources> <library>...)
function(plait_test_program folder name sources)
  string(REGEX REPLACE "/.*" "" top "${folder}")
  if(NOT TARGET tests_${top})
    add_custom_target(tests_${top})
  endif()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE PLAIT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Most of the tests' time is in the library: with -O1 they compile in a third less time than with -O3 and run as
  # fast, and unit tests without optimisation in another 40% less. Tests that compute what they expect need -O1.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  set(first first_test)
  if(folder MATCHES "^unit" AND NOT folder MATCHES "host$")
    target_compile_options(${name} PRIVATE -O0)
    set(first first_unoptimized_test)
  endif()
  get_property(has_header GLOBAL PROPERTY ${first})
  if(has_header)
    target_precompile_headers(${name} REUSE_FROM ${has_header})
  else()
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY ${first} ${name})
  endif()
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest_main)
  add_dependencies(tests_${top} ${name})
endfunction()

function(plait_add_test name program)
  add_test(NAME "${name}" COMMAND ${program})
  set(seconds 600)  # for sanitizers, and for machines that do other work; `make` limits those of sanitizers together, too
  set_tests_properties("${name}" PROPERTIES TIMEOUT ${seconds})
endfunction()
