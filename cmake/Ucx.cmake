# Finds UCX's headers, in the system or in the wheel libucx-cu13 of this Python: sets PLAIT_UCX_INCLUDE. Nothing links
# UCX, which is opened at run time. Where there are no headers the rest is built, and the network says so.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.util as u; s = u.find_spec('libucx'); print(s.submodule_search_locations[0] if s else '')"
  OUTPUT_VARIABLE ucx_wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_path(PLAIT_UCX_INCLUDE ucp/api/ucp.h HINTS "${ucx_wheel}/include")
if(NOT PLAIT_UCX_INCLUDE)
  message(NOTICE "Plait: without a network between nodes, since UCX's headers are missing (libucx-dev, or the wheel libucx-cu13)")
endif()
