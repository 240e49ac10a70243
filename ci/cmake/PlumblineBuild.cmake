# Options, compiler settings, and the few functions with which the folders declare their targets.
include(GNUInstallDirs)
include(CMakeDependentOption)

option(PLUMBLINE_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(PLUMBLINE_WERROR "Treat warnings as errors" OFF)
set(PLUMBLINE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: address,undefined or thread")
option(PLUMBLINE_UNITY "Compile tests, checks and commands some files at a time: half the time of a build from nothing" ON)
option(PLUMBLINE_PRECOMPILE "Compile the headers that most files include once: a third of the time of a build from nothing" ON)
option(PLUMBLINE_FUZZ "Build the fuzzers alone, with Clang (16 or newer); see ci/fuzz" OFF)
option(PLUMBLINE_WHEEL "Build what goes into a Python wheel: it runs on other systems, and is found in site-packages; see ci/package" OFF)
set(PLUMBLINE_TORCH AUTO CACHE STRING "Build what needs LibTorch: AUTO (where it is found), ON, OFF")
set(PLUMBLINE_MPI AUTO CACHE STRING "Build the MPI backend: AUTO (where it is found), ON, OFF")
set(PLUMBLINE_MPICC_ALSO AUTO CACHE STRING "Compilers of further MPIs to build the backend for: mpicc;mpicc, AUTO (Debian's other one), or nothing")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# What CMake would choose costs more time to compile than it gains. Stacks have the names of functions; RelWithDebInfo adds lines.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")  # nobody's choice
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/plumbline)
# Installed modules still find LibTorch where it was found at build time, unless they are for other machines.
if(NOT PLUMBLINE_WHEEL)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

find_program(PLUMBLINE_CCACHE ccache)
if(PLUMBLINE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # It keeps what was compiled with precompiled headers only if it is told so. What a file includes it takes from the compiler's list,
  # without preprocessing the file once more.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${PLUMBLINE_CCACHE})
endif()

# GCC collects its garbage from some megabytes on by default, which is a seventh of the time of our files.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>)
endif()

# Recorded answers are repeated to the bit, on every machine: products and sums are not fused.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

add_library(plumbline_settings INTERFACE)
target_compile_features(plumbline_settings INTERFACE cxx_std_20)
target_include_directories(plumbline_settings INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/plumbline>)

add_library(plumbline_warnings INTERFACE)
target_compile_options(plumbline_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  $<$<AND:$<BOOL:${PLUMBLINE_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
target_compile_definitions(plumbline_warnings INTERFACE PLUMBLINE_VERSION="${PROJECT_VERSION}")

find_program(PLUMBLINE_MOLD mold)
if(PLUMBLINE_MOLD AND NOT PLUMBLINE_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()
if(PLUMBLINE_SANITIZE)
  add_compile_options(-fsanitize=${PLUMBLINE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLUMBLINE_SANITIZE})
  if(PLUMBLINE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

if(PLUMBLINE_WHEEL)
  if(NOT PLUMBLINE_THIRD_PARTY)
    message(FATAL_ERROR "PLUMBLINE_WHEEL=ON without PLUMBLINE_THIRD_PARTY; name a folder with the sources of fmt and the other libraries")
  endif()
  # The same files whatever folder they are built in; the last option that fits is taken.
  foreach(folder ${PROJECT_SOURCE_DIR}=. ${PROJECT_BINARY_DIR}=build ${PLUMBLINE_THIRD_PARTY}=third_party)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${folder}>)
  endforeach()
  # Before their ids are made of what is in them: nvcc leaves names of its temporary files.
  add_link_options(LINKER:-s)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/ci/package/older_symbols.hpp>")
endif()

if(PLUMBLINE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
    message(FATAL_ERROR "PLUMBLINE_FUZZ=ON with ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}; it needs Clang 16 or newer")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Here, so that every folder sees them.
find_package(Threads REQUIRED)
include(PlumblineThirdParty)

# plumbline_precompile(target kind): the target's files begin with headers that are compiled already; called when all of its options are
# known. The kind is product, checks or tests; the last two have GoogleTest. GCC takes such headers only for files of the same options,
# and crashes where the optimization differs, so each optimization has its own.
function(plumbline_precompile target kind)
  plumbline_note_torch(${target})
  get_target_property(with_torch ${target} PLUMBLINE_WITH_TORCH)
  if(with_torch)
    set(kind torch-${kind})
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  string(REGEX MATCHALL "-O[0-3g]" levels "-O2;${options}")
  list(GET levels -1 level)
  set(kind ${kind}${level})
  # Of others there are few.
  if(NOT PLUMBLINE_PRECOMPILE OR PLUMBLINE_FUZZ OR PLUMBLINE_WHEEL OR
     NOT kind MATCHES "^(product-Og|product-O2|checks-Og|tests-O0|tests-Og|torch-product-O2|torch-tests-O0)$")
    return()
  endif()
  if(NOT TARGET plumbline_headers_${kind})
    plumbline_compile_headers(${kind} ${level})
  endif()
  target_precompile_headers(${target} REUSE_FROM plumbline_headers_${kind})
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options MATCHES "-[Om]" AND NOT options MATCHES "${level}[^-]*$")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# Whether a target has LibTorch's headers, by what it is linked with.
function(plumbline_note_torch target)
  get_target_property(links ${target} LINK_LIBRARIES)
  foreach(library IN LISTS links)
    set(with_torch)
    if(TARGET ${library})
      get_target_property(with_torch ${library} PLUMBLINE_WITH_TORCH)
    endif()
    if(library STREQUAL plumbline_torch OR with_torch)
      set_target_properties(${target} PROPERTIES PLUMBLINE_WITH_TORCH ON)
    endif()
  endforeach()
endfunction()

# plumbline_json_header(out): JSON's header without the bodies of its literals, which nothing here uses: for their sake files that
# have nothing to do with JSON would instantiate a parser, too.
function(plumbline_json_header out)
  get_target_property(folders nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
  string(REGEX REPLACE "\\$<BUILD_INTERFACE:([^>]*)>" "\\1" folders "${folders}")
  find_file(header nlohmann/json.hpp PATHS ${folders} NO_DEFAULT_PATH NO_CACHE)
  if(NOT header)  # of a package whose target names no folder, since compilers look there by themselves
    find_file(header nlohmann/json.hpp NO_CACHE REQUIRED)
  endif()
  file(READ ${header} text)
  string(REGEX REPLACE "(operator *\"\" *_json(_pointer)?\\([^)]*\\))[ \n]*{[^}]*}" "\\1;" text "${text}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers/json.hpp CONTENT "#pragma GCC system_header\n@text@" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  set(${out} ${PROJECT_BINARY_DIR}/headers/json.hpp PARENT_SCOPE)
endfunction()

function(plumbline_compile_headers kind level)
  set(target plumbline_headers_${kind})
  file(WRITE ${PROJECT_BINARY_DIR}/headers/${kind}.cpp "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/headers/${kind}.cpp)
  target_link_libraries(${target} PRIVATE plumbline_settings plumbline_warnings fmt::fmt nlohmann_json::nlohmann_json)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:${level}>)
  set(headers <algorithm> <array> <chrono> <cmath> <filesystem> <fstream> <functional> <iostream> <map> <memory> <mutex> <numeric>
    <optional> <random> <ranges> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <variant> <vector>
    <fmt/format.h> <fmt/ranges.h>)
  plumbline_json_header(json)
  list(APPEND headers ${json})
  if(kind MATCHES "tests")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  else()
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
  if(kind MATCHES "tests|checks")
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
    target_link_libraries(${target} PRIVATE GTest::gmock)
  endif()
  if(kind MATCHES "^torch")
    list(APPEND headers <ATen/Parallel.h> <ATen/core/Tensor.h> <ATen/ops/empty.h>)
    target_link_libraries(${target} PRIVATE plumbline_torch)
    target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# plumbline_precompile_later(target kind): at the end of the folder.
function(plumbline_precompile_later target kind)
  plumbline_note_torch(${target})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL plumbline_precompile ${target} ${kind})")
endfunction()

# plumbline_library(name SOURCES … LINKS …): a static library plumbline::name that may be linked into any module.
function(plumbline_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(plumbline_${name} STATIC ${arg_SOURCES})
  add_library(plumbline::${name} ALIAS plumbline_${name})
  set_target_properties(plumbline_${name} PROPERTIES EXPORT_NAME ${name} CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(plumbline_${name} PUBLIC plumbline_settings ${arg_LINKS}
    PRIVATE $<BUILD_INTERFACE:plumbline_warnings> ${arg_PRIVATE_LINKS})
  foreach(source IN LISTS arg_SOURCES)  # for plumbline_weave()
    file(RELATIVE_PATH source ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set_property(GLOBAL PROPERTY PLUMBLINE_OWNER_${source} plumbline_${name})
  endforeach()
  if("${arg_LINKS};${arg_PRIVATE_LINKS}" MATCHES "GTest::")
    plumbline_precompile_later(plumbline_${name} checks)
  else()
    plumbline_precompile_later(plumbline_${name} product)
  endif()
endfunction()

# plumbline_operations(component SOURCES … LINKS … [TESTS …]): what a component answers to the adapter protocol.
function(plumbline_operations component)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;TESTS" ${ARGN})
  plumbline_library(${component}_operations SOURCES ${arg_SOURCES} LINKS plumbline::adapter_service ${arg_LINKS})
  target_compile_options(plumbline_${component}_operations PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
  set_property(GLOBAL APPEND PROPERTY PLUMBLINE_OPERATIONS plumbline::${component}_operations)
  if(arg_TESTS)
    plumbline_test(${component}_operations_test SOURCES ${arg_TESTS} LINKS plumbline::reference_adapter)
  endif()
endfunction()

# plumbline_module(name [FILE folder/name] SOURCES … LINKS …): lib/plumbline/libplumbline_<name>.so, or that of FILE, opened at run
# time; exports only what is marked PLUMBLINE_EXPORT.
function(plumbline_module name)
  cmake_parse_arguments(arg "" "FILE" "SOURCES;LINKS" ${ARGN})
  if(NOT arg_FILE)
    set(arg_FILE ${name})
  endif()
  get_filename_component(folder ${arg_FILE} DIRECTORY)
  get_filename_component(file ${arg_FILE} NAME)
  add_library(plumbline_${name} MODULE ${arg_SOURCES})
  set_property(GLOBAL APPEND PROPERTY PLUMBLINE_MODULES ${name})
  set_target_properties(plumbline_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH $ORIGIN OUTPUT_NAME plumbline_${file} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${folder}
    PLUMBLINE_FOLDER "${folder}")
  target_link_libraries(plumbline_${name} PRIVATE plumbline_settings plumbline_warnings ${arg_LINKS})
  plumbline_precompile_later(plumbline_${name} product)
  target_link_options(plumbline_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  if(PLUMBLINE_SANITIZE)
    # The sanitizers' run-time library is the executable's.
    set_property(TARGET plumbline_${name} PROPERTY LINK_OPTIONS -Wl,--exclude-libs,ALL)
  endif()
  # Literally: the executable looks for modules in ../lib/plumbline.
  install(TARGETS plumbline_${name} LIBRARY DESTINATION lib/plumbline/${folder})
endfunction()

# plumbline_compiles_fast(): the targets of this folder gain nothing from the last bit of speed, and compile in less than
# two thirds of the time without it: -Og takes a tenth to a fifth less than -O1, and the checks run as fast.
macro(plumbline_compiles_fast)
  add_compile_options($<$<CONFIG:Release,RelWithDebInfo>:-Og>)
endmacro()

# plumbline_compile_fast(file.cpp …): the same of some files of a folder.
function(plumbline_compile_fast)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
endfunction()

# plumbline_tests_run_long(): the tests of this folder run longer than they compile. Tests of others are not optimised: nor are
# the functions of templates, such as those of JSON values, that they share with the libraries they test.
macro(plumbline_tests_run_long)
  set(PLUMBLINE_TEST_OPTIMIZATION -Og)
endmacro()
set(PLUMBLINE_TEST_OPTIMIZATION -O0)

# plumbline_compiles_together(): the files of this folder are compiled some at a time, since most of their time goes into
# headers that they share. Even an empty file takes a second, for what headers instantiate: so the groups are large.
macro(plumbline_compiles_together)
  set(CMAKE_UNITY_BUILD ${PLUMBLINE_UNITY})
endmacro()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 20)

# plumbline_fuzzer(name SOURCES … LINKS …): fuzzers/<name>, a libFuzzer program around one reader of input; ci/fuzz runs them all.
function(plumbline_fuzzer name)
  if(NOT PLUMBLINE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  set_target_properties(fuzz_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzzers)
  target_link_libraries(fuzz_${name} PRIVATE plumbline_settings plumbline_warnings ${arg_LINKS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_property(GLOBAL APPEND PROPERTY PLUMBLINE_FUZZERS fuzz_${name})
endfunction()

# plumbline_compile_as_test(target): a program of the tests, optimised as they are in its folder.
function(plumbline_compile_as_test target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:${PLUMBLINE_TEST_OPTIMIZATION}>)
  plumbline_precompile_later(${target} tests)
endfunction()

# plumbline_test(name SOURCES … LINKS … [LABELS …] [WOVEN filter]): a GoogleTest program of a part's inside, one ctest entry.
# Its files are compiled together. The tests that the filter names, which need mutants that are edits, a woven twin runs.
function(plumbline_test name)
  if(NOT PLUMBLINE_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "WOVEN" "SOURCES;LINKS;LABELS;ARGUMENTS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${PLUMBLINE_UNITY})
  target_link_libraries(${name} PRIVATE plumbline_settings plumbline_warnings ${arg_LINKS} GTest::gmock
    GTest::gtest_main)
  plumbline_compile_as_test(${name})
  if(arg_WOVEN)
    list(APPEND arg_ARGUMENTS --gtest_filter=-${arg_WOVEN})  # that the twin runs
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS "unit;${arg_LABELS}" TIMEOUT 900)
  if(arg_WOVEN)
    set_property(GLOBAL APPEND PROPERTY PLUMBLINE_WOVEN_TESTS ${name})
    set_target_properties(${name} PROPERTIES PLUMBLINE_WOVEN_FILTER ${arg_WOVEN})
  endif()
endfunction()
