# Puts the texts of machines/*.json into the library, so that nothing need be found at run time.
#
# As an include: plait_embed_machines(<target>) adds a generated source, made again when one of the files changes.
# As a script: cmake -DFOLDER=<machines> -DOUTPUT=<file.cpp> -P EmbedMachines.cmake writes that source.

if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files "${FOLDER}/*.json")
  list(SORT files)
  set(entries "")
  foreach(path IN LISTS files)
    get_filename_component(name "${path}" NAME_WE)
    file(READ "${path}" text)
    string(APPEND entries "      {\"${name}\", R\"machine(${text})machine\"},\n")
  endforeach()
  file(WRITE "${OUTPUT}" "// Written by cmake/EmbedMachines.cmake from machines/*.json.\n"
    "#include \"topology/machines.hpp\"\n\n"
    "namespace plait::internal {\n\n"
    "std::span<const MachineText> machine_texts() {\n"
    "  static constexpr MachineText texts[] = {\n${entries}  };\n"
    "  return texts;\n}\n\n"
    "}  // namespace plait::internal\n")
  return()
endif()

set(PLAIT_EMBED_MACHINES_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(plait_embed_machines target)
  set(folder "${PROJECT_SOURCE_DIR}/machines")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/machine_texts.cpp")
  file(GLOB files CONFIGURE_DEPENDS "${folder}/*.json")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${folder}" "-DOUTPUT=${output}" -P "${PLAIT_EMBED_MACHINES_SCRIPT}"
    DEPENDS ${files} "${PLAIT_EMBED_MACHINES_SCRIPT}"
    COMMENT "Embedding machines/*.json"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
