# Flags for files of src/runtime/host that compile one source (reduce_kernels.hpp) for several instruction sets. This is
# included where their library is made, since properties of source files are visible only in the folder that sets them.
set(reduce_folder "${PROJECT_SOURCE_DIR}/src/runtime/host")

# For the same bits on every CPU: no fused multiply-add, and no assumptions that a user's flags may allow the compiler.
set(reduce_flags -ffp-contract=off -fno-fast-math)
set(reduce_march_baseline x86-64-v2)
set(reduce_march_avx2 x86-64-v3)
set(reduce_march_avx512 x86-64-v4)
foreach(variant baseline avx2 avx512)
  set(flags ${reduce_flags})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND flags "-march=${reduce_march_${variant}}" -mtune=generic)
  endif()
  set_source_files_properties("${reduce_folder}/reduce_${variant}.cpp" PROPERTIES COMPILE_OPTIONS "${flags}")
endforeach()
