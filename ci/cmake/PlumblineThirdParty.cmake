# The libraries that are not our subject: those of the machine, or sources in a folder that is given.
#
# A machine without network and without packages builds them with ours: PLUMBLINE_THIRD_PARTY names a folder with a sub-folder for
# each that the machine lacks, named as its repository is, with or without a version: googletest, benchmark, json, CLI11,
# tomlplusplus, fmt, prometheus-cpp. The last may be missing: then records have no metrics beside them. What is built here is
# linked statically.
set(PLUMBLINE_THIRD_PARTY "" CACHE PATH "Folder with sources of libraries, a sub-folder each")

# What is in an installation of other people's: a line of JSON for each, and its licence; a wheel is not made without one.
set_property(GLOBAL PROPERTY PLUMBLINE_LINKED "")

# plumbline_note_linked(repository version spdx files…): that library, under the licence of that name in SPDX, is in what is built.
function(plumbline_note_linked repository version licence)
  if(PLUMBLINE_WHEEL AND NOT ARGN AND NOT licence MATCHES "^LicenseRef-")
    message(FATAL_ERROR "no file with the licence of ${repository} was found; put its sources into PLUMBLINE_THIRD_PARTY")
  endif()
  if(ARGN)
    install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences/${repository})
  endif()
  set_property(GLOBAL APPEND PROPERTY PLUMBLINE_LINKED
    "{\"name\": \"${repository}\", \"version\": \"${version}\", \"licence\": \"${licence}\"}")
endfunction()

# plumbline_third_party(package repository LICENCE spdx [OPTIONAL] OFF … ON …): the package from that folder, with these of its
# options, else from the machine.
function(plumbline_third_party package repository)
  cmake_parse_arguments(arg "OPTIONAL" "LICENCE" "OFF;ON" ${ARGN})
  set(found)
  if(PLUMBLINE_THIRD_PARTY)
    file(GLOB candidates LIST_DIRECTORIES true ${PLUMBLINE_THIRD_PARTY}/${repository} ${PLUMBLINE_THIRD_PARTY}/${repository}-*)
    foreach(candidate IN LISTS candidates)
      if(EXISTS ${candidate}/CMakeLists.txt)
        list(APPEND found ${candidate})
      endif()
    endforeach()
    list(LENGTH found count)
    if(count GREATER 1)
      message(FATAL_ERROR "PLUMBLINE_THIRD_PARTY=${PLUMBLINE_THIRD_PARTY} has ${count} of ${repository}: ${found}; leave one")
    endif()
  endif()
  if(NOT found)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND AND NOT arg_OPTIONAL)
      message(FATAL_ERROR "${package} was not found; install it, or put its sources into PLUMBLINE_THIRD_PARTY as ${repository}")
    endif()
    if(${package}_FOUND)
      # Debian's; its names are not the repository's.
      string(TOLOWER ${package} lower)
      string(REPLACE _ - lower ${lower})
      file(GLOB licences /usr/share/doc/${lower}*-dev/copyright /usr/share/doc/lib${lower}-dev/copyright)
      plumbline_note_linked(${repository} "${${package}_VERSION}" ${arg_LICENCE} ${licences})
    endif()
    return()
  endif()
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # normal variables are options of older projects, too
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # of projects that ask for less than CMake 4 serves
  foreach(option IN LISTS arg_OFF)
    set(${option} OFF)
  endforeach()
  foreach(option IN LISTS arg_ON)
    set(${option} ON)
  endforeach()
  set(CMAKE_WARN_DEPRECATED OFF)
  message(STATUS "Plumbline: ${repository} from ${found}")
  add_subdirectory(${found} ${PROJECT_BINARY_DIR}/third_party/${repository} EXCLUDE_FROM_ALL)
  file(GLOB licences ${found}/LICENSE* ${found}/COPYING*)
  get_directory_property(version DIRECTORY ${found} DEFINITION PROJECT_VERSION)
  if(NOT version)
    string(TOUPPER ${repository} upper)
    get_directory_property(version DIRECTORY ${found} DEFINITION ${upper}_VERSION)
  endif()
  plumbline_note_linked(${repository} "${version}" ${arg_LICENCE} ${licences})
endfunction()

if(PLUMBLINE_THIRD_PARTY AND NOT IS_DIRECTORY ${PLUMBLINE_THIRD_PARTY})
  message(FATAL_ERROR "PLUMBLINE_THIRD_PARTY=${PLUMBLINE_THIRD_PARTY} is no folder")
endif()
plumbline_third_party(fmt fmt LICENCE MIT OFF FMT_INSTALL FMT_TEST FMT_DOC)
plumbline_third_party(nlohmann_json json LICENCE MIT OFF JSON_BuildTests JSON_Install)
plumbline_third_party(tomlplusplus tomlplusplus LICENCE MIT)
plumbline_third_party(CLI11 CLI11 LICENCE BSD-3-Clause OFF CLI11_BUILD_TESTS CLI11_BUILD_EXAMPLES CLI11_BUILD_DOCS CLI11_PRECOMPILED)
plumbline_third_party(GTest googletest LICENCE BSD-3-Clause OFF INSTALL_GTEST ON BUILD_GMOCK)
plumbline_third_party(benchmark benchmark LICENCE Apache-2.0
  OFF BENCHMARK_ENABLE_TESTING BENCHMARK_ENABLE_INSTALL BENCHMARK_ENABLE_GTEST_TESTS BENCHMARK_ENABLE_WERROR)
plumbline_third_party(prometheus-cpp prometheus-cpp OPTIONAL LICENCE MIT
  OFF ENABLE_PULL ENABLE_PUSH ENABLE_COMPRESSION ENABLE_TESTING USE_THIRDPARTY_LIBRARIES OVERRIDE_CXX_STANDARD_FLAGS GENERATE_PKGCONFIG)
if(NOT TARGET prometheus-cpp::core)
  message(STATUS "Plumbline: prometheus-cpp was not found; no metrics.prom beside records")
endif()
