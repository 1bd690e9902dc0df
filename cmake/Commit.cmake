# The commit of the sources, for whoever measures: what `git describe` says of SOURCE, "-dirty" behind it where tracked
# files differ, and nothing outside a repository of its own. Run at each build, since commits come between two
# configurations; a FILE that says it already is left alone, so that nothing is compiled again.
#
#   cmake -DSOURCE=<folder> -DFILE=<file to write> [-DCOMMIT=<commit that the caller knows>] -P Commit.cmake
if(NOT COMMIT)
  find_program(GIT git)
  if(GIT)
    set(git "${GIT}" -c safe.directory=* -C "${SOURCE}")
    # An unpacked release inside somebody else's repository has no commit.
    execute_process(COMMAND ${git} rev-parse --show-cdup OUTPUT_VARIABLE up RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed AND up STREQUAL "")
      execute_process(COMMAND ${git} describe --always --dirty --abbrev=40 --exclude=* OUTPUT_VARIABLE COMMIT
                      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
endif()
set(text "extern const char plait_commit[] = \"${COMMIT}\";\n")
if(EXISTS "${FILE}")
  file(READ "${FILE}" there)
endif()
if(NOT "${there}" STREQUAL "${text}")
  file(WRITE "${FILE}" "${text}")
endif()
