# share/plumbline/source.txt: of which sources this is a build. Its first line is the commit, or "no git checkout"; then come the
# files that differ from it, a line each. Written anew in each build, where it has changed; records and statements tell it.
if(CMAKE_SCRIPT_MODE_FILE)  # cmake -D SOURCE=… -D OUT=… -P
  set(text "no git checkout\n")
  execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed OUTPUT_VARIABLE commit ERROR_QUIET)
  execute_process(COMMAND git rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE prefix ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND prefix STREQUAL "")  # else a checkout of something around it
    execute_process(COMMAND git diff --name-only HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE changes ERROR_QUIET)
    set(text "${commit}${changes}")
  endif()
  set(before)
  if(EXISTS ${OUT})
    file(READ ${OUT} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${OUT} "${text}")
  endif()
  return()
endif()

set(source_txt ${PROJECT_BINARY_DIR}/share/plumbline/source.txt)
add_custom_target(plumbline_source ALL BYPRODUCTS ${source_txt}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D OUT=${source_txt} -P ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
install(FILES ${source_txt} DESTINATION share/plumbline)
