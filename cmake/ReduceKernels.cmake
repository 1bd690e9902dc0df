# Flags of the files of src/runtime/host that are one source (reduce_kernels.hpp) compiled for several instruction sets.
# Included where their library is made, since properties of source files are seen only in the folder that sets them.
set(reduce_folder "${PROJECT_SOURCE_DIR}/src/runtime/host")

# The same bits on every CPU: no fused multiply-add, and nothing that a user's flags may allow the compiler to assume.
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
