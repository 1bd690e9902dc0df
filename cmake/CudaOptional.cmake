# Enables CUDA if there is a compiler for it. PLAIT_CUDA (variable or environment) chooses it:
#   auto    the system's nvcc, else NVIDIA's wheels if this Python has them, else none (the default)
#   wheel   NVIDIA's wheels        system  the system's nvcc        off  none
# Sets PLAIT_HAVE_CUDA. If that is ON, also enables the language CUDA and finds CUDAToolkit.
set(PLAIT_CUDA "$ENV{PLAIT_CUDA}" CACHE STRING "Which CUDA compiler: auto, wheel, system or off")
set(PLAIT_HAVE_CUDA OFF)

# Makes links in the build folder that give NVIDIA's wheels the layout of a toolkit (lib64, unversioned libraries), and
# sets `out` to the nvcc there: nvcc that is started through a link takes the folder of that link as its root.
function(plait_cuda_root_of_wheels wheels out)
  set(root "${CMAKE_BINARY_DIR}/cuda-root")
  file(REMOVE_RECURSE "${root}")
  file(MAKE_DIRECTORY "${root}/bin" "${root}/lib64")
  file(CREATE_LINK "${wheels}/include" "${root}/include" SYMBOLIC)
  file(CREATE_LINK "${wheels}/nvvm" "${root}/nvvm" SYMBOLIC)
  file(GLOB programs "${wheels}/bin/*")
  foreach(file IN LISTS programs)
    get_filename_component(name "${file}" NAME)
    file(CREATE_LINK "${file}" "${root}/bin/${name}" SYMBOLIC)
  endforeach()
  file(GLOB libraries "${wheels}/lib/lib*")
  foreach(file IN LISTS libraries)
    get_filename_component(name "${file}" NAME)
    file(CREATE_LINK "${file}" "${root}/lib64/${name}" SYMBOLIC)
    if(name MATCHES "^(lib[A-Za-z0-9_-]+\\.so)\\.")
      file(CREATE_LINK "${file}" "${root}/lib64/${CMAKE_MATCH_1}" SYMBOLIC)
    endif()
  endforeach()
  set(${out} "${root}/bin/nvcc" PARENT_SCOPE)
endfunction()

execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env "PLAIT_CUDA=${PLAIT_CUDA}"
          "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/nvcc.py"
  OUTPUT_VARIABLE answer
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "tools/nvcc.py failed (see above).")
endif()
list(GET answer 0 kind)
list(GET answer 1 where)

if(kind STREQUAL "none")
  if(PLAIT_CUDA MATCHES "^(wheel|system)$")
    message(FATAL_ERROR "PLAIT_CUDA=${PLAIT_CUDA}, but there is ${where}. Install it, or set PLAIT_CUDA=off.")
  endif()
  message(NOTICE "Plait: without CUDA (${where})")
  return()
endif()
if(kind STREQUAL "wheel")
  plait_cuda_root_of_wheels("${where}" where)
endif()
set(CMAKE_CUDA_COMPILER "${where}")

# Every GPU since Turing: machine code for data-centre GPUs, and PTX for those between and after them.
set(all_gpus 75-virtual 80-real 90-real 100-real 100-virtual)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${all_gpus})
endif()
enable_language(CUDA)
if(CMAKE_CUDA_ARCHITECTURES STREQUAL "native" AND NOT CMAKE_CUDA_ARCHITECTURES_NATIVE)
  set(CMAKE_CUDA_ARCHITECTURES ${all_gpus})  # there is no GPU here
endif()
# The targets by their numbers, which the library reports.
set(PLAIT_KERNEL_TARGETS "")
foreach(target IN LISTS CMAKE_CUDA_ARCHITECTURES)
  if(target MATCHES "^(native|all|all-major)$")
    string(TOUPPER "CMAKE_CUDA_ARCHITECTURES_${target}" numbers)
    string(REPLACE "-" "_" numbers "${numbers}")
    list(APPEND PLAIT_KERNEL_TARGETS ${${numbers}})
  else()
    list(APPEND PLAIT_KERNEL_TARGETS ${target})
  endif()
endforeach()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc supports C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# Uncompressed, the machine code of all architectures would be most of the library. Compressed, it takes a seventh of
# that, and 20 ms more to load, once.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xfatbin=-compress-all>")
find_package(CUDAToolkit REQUIRED)
set(PLAIT_HAVE_CUDA ON)
message(NOTICE "Plait: with CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${kind}) for ${PLAIT_KERNEL_TARGETS}")
