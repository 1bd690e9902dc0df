# Embeds the *.json files of a folder in the library, so that it needs no files at run time.
#
# As an include, plait_embed_texts(<target> <folder> <header> <struct> <function>) adds a generated source, which is made
# again when one of the files changes. <header> declares `struct <struct> { const char* name; const char* text; };` and
# `std::span<const <struct>> <function>();` in plait::internal.
# As a script, cmake -DFOLDER=… -DHEADER=… -DSTRUCT=… -DFUNCTION=… -DOUTPUT=<file.cpp> -P EmbedTexts.cmake writes that
# source.

if(CMAKE_SCRIPT_MODE_FILE)
  get_filename_component(folder "${FOLDER}" NAME)
  file(GLOB files "${FOLDER}/*.json")
  list(SORT files)
  set(entries "")
  foreach(path IN LISTS files)
    get_filename_component(name "${path}" NAME_WE)
    file(READ "${path}" text)
    string(APPEND entries "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  file(WRITE "${OUTPUT}" "// Written by cmake/EmbedTexts.cmake from ${folder}/*.json.\n"
    "#include \"${HEADER}\"\n\n"
    "namespace plait::internal {\n\n"
    "std::span<const ${STRUCT}> ${FUNCTION}() {\n"
    "  static constexpr ${STRUCT} texts[] = {\n${entries}  };\n"
    "  return texts;\n}\n\n"
    "}  // namespace plait::internal\n")
  return()
endif()

set(PLAIT_EMBED_TEXTS_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(plait_embed_texts target folder header struct function)
  set(path "${PROJECT_SOURCE_DIR}/${folder}")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  file(GLOB files CONFIGURE_DEPENDS "${path}/*.json")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${path}" "-DHEADER=${header}" "-DSTRUCT=${struct}" "-DFUNCTION=${function}"
            "-DOUTPUT=${output}" -P "${PLAIT_EMBED_TEXTS_SCRIPT}"
    DEPENDS ${files} "${PLAIT_EMBED_TEXTS_SCRIPT}"
    COMMENT "Embedding ${folder}/*.json"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
