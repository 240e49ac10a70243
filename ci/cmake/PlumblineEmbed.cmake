# plumbline_embed(target symbol file): compiles the text of `file` into `target` as
#   extern const std::string_view symbol;        (declare it where it is used, in the global namespace)
# The source is written at build time and again when the file changes.
set(PLUMBLINE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_text.cmake)

function(plumbline_embed target symbol file)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D SYMBOL=${symbol} -D INPUT=${input} -D OUTPUT=${output} -P ${PLUMBLINE_EMBED_SCRIPT}
    DEPENDS ${input} ${PLUMBLINE_EMBED_SCRIPT}
    COMMENT "Embedding ${file}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
