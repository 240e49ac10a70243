# plumbline_component(name CHECKS … LINKS … PRIVATE_LINKS … MUTANTS … [LIBRARIES …]): the folder conformance/<name>, two libraries:
#   plumbline::<name>_checks      of CHECKS, with LINKS and PRIVATE_LINKS; reads vectors/*.json at run time, if there are any
#   plumbline::<name>_component   add_<name>() of <name>.cpp, MUTANTS, and each *.toml, compiled in as
#                                 extern const std::string_view plumbline_<name>_<file without .toml>;
# LIBRARIES are further ones that <name>.cpp has checks from. plumbline_conformance is linked to all components.
include(PlumblineEmbed)
include(PlumblineVectors)

function(plumbline_component name)
  cmake_parse_arguments(arg "" "" "CHECKS;LINKS;PRIVATE_LINKS;MUTANTS;LIBRARIES" ${ARGN})
  plumbline_library(${name}_checks SOURCES ${arg_CHECKS} LINKS ${arg_LINKS} PRIVATE_LINKS ${arg_PRIVATE_LINKS})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/vectors)
    plumbline_vectors(plumbline_${name}_checks ${name})
  endif()

  plumbline_library(${name}_component SOURCES ${name}.cpp ${arg_MUTANTS}
    LINKS plumbline::suite plumbline::mutants
    PRIVATE_LINKS plumbline::${name}_checks ${arg_LIBRARIES})
  file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.toml)
  foreach(text IN LISTS texts)
    get_filename_component(stem ${text} NAME_WE)
    plumbline_embed(plumbline_${name}_component plumbline_${name}_${stem} ${text})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY PLUMBLINE_COMPONENTS plumbline::${name}_component)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/mutants.toml)
    set_property(GLOBAL APPEND PROPERTY PLUMBLINE_EDITS ${CMAKE_CURRENT_SOURCE_DIR}/mutants.toml)
  endif()
endfunction()
