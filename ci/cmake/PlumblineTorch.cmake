# LibTorch, for the training module alone: sets PLUMBLINE_HAS_TORCH and the target plumbline_torch.
#
# Looked for in this order: Torch_DIR and CMAKE_PREFIX_PATH, the torch that the user's python3 would import, the one of the
# project's .venv, the system's (Debian's libtorch-dev). LibTorch's own CMake package is not used: that of a CUDA build
# stops the configuration where no CUDA toolkit is installed, and nothing here needs one.
set(PLUMBLINE_TORCH_OLDEST 2.1)

# The folder of the torch package that `python` would import; found without importing it, which would take seconds.
function(plumbline_torch_of_python python out)
  set(${out} "" PARENT_SCOPE)
  if(python)
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
      OUTPUT_VARIABLE folder RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(${out} ${folder} PARENT_SCOPE)
    endif()
  endif()
endfunction()

# The folders that may hold include/ATen and lib/libtorch_cpu.so, in order.
function(plumbline_torch_candidates out)
  set(prefixes ${Torch_DIR} $ENV{Torch_DIR} ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" prefixes "${prefixes}")
  set(candidates "")
  foreach(prefix IN LISTS prefixes)
    # The root itself, its share/cmake (what torch.utils.cmake_prefix_path says), or its share/cmake/Torch.
    list(APPEND candidates ${prefix} ${prefix}/../.. ${prefix}/../../..)
  endforeach()
  find_program(python python3 NO_CACHE)
  plumbline_torch_of_python("${python}" of_user)
  set(of_venv "")
  if(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python3)
    plumbline_torch_of_python(${PROJECT_SOURCE_DIR}/.venv/bin/python3 of_venv)
  endif()
  set(${out} ${candidates} ${of_user} ${of_venv} /usr/local /usr PARENT_SCOPE)
endfunction()

# "2.13.0" of the headers under `include`.
function(plumbline_torch_version include out)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS ${include}/${header})
      file(STRINGS ${include}/${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      if(lines MATCHES "MAJOR +([0-9]+).*MINOR +([0-9]+).*PATCH +([0-9]+)")
        set(${out} ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${out} 0 PARENT_SCOPE)
endfunction()

function(plumbline_find_torch)
  set(PLUMBLINE_HAS_TORCH FALSE PARENT_SCOPE)
  plumbline_torch_candidates(candidates)
  foreach(root IN LISTS candidates)
    file(GLOB library ${root}/lib/libtorch_cpu.so ${root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libtorch_cpu.so)
    if(NOT library OR NOT EXISTS ${root}/include/ATen/core/Tensor.h)
      continue()
    endif()
    get_filename_component(root ${root} ABSOLUTE)
    plumbline_torch_version(${root}/include version)
    if(version VERSION_LESS PLUMBLINE_TORCH_OLDEST)
      message(STATUS "Plumbline: LibTorch ${version} in ${root} is too old; ${PLUMBLINE_TORCH_OLDEST} is the oldest")
      continue()
    endif()
    set(config ${root}/share/cmake/Torch/TorchConfig.cmake)
    if(EXISTS ${config})
      file(STRINGS ${config} old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
      if(old_abi)
        message(STATUS "Plumbline: LibTorch in ${root} is built for the C++ ABI of before 2015, which nothing else here is")
        continue()
      endif()
    endif()
    get_filename_component(libraries ${library} DIRECTORY)
    set(cuda "")
    if(NOT PLUMBLINE_WHEEL)  # whose modules serve a LibTorch without it, too
      file(GLOB cuda ${libraries}/libtorch_cuda.so)
    endif()
    add_library(plumbline_torch INTERFACE IMPORTED GLOBAL)
    if(NOT root STREQUAL "/usr")
      target_include_directories(plumbline_torch SYSTEM INTERFACE ${root}/include)
    endif()
    target_compile_definitions(plumbline_torch INTERFACE PLUMBLINE_TORCH_VERSION="${version}")
    target_compile_options(plumbline_torch INTERFACE $<$<BOOL:${PLUMBLINE_WHEEL}>:-ffile-prefix-map=${root}=torch>)
    # libtorch_cuda registers its kernels when it is loaded; nothing refers to it by name.
    target_link_libraries(plumbline_torch INTERFACE
      -Wl,--push-state,--no-as-needed ${libraries}/libtorch_cpu.so ${libraries}/libc10.so ${cuda} -Wl,--pop-state)
    set(PLUMBLINE_HAS_TORCH TRUE PARENT_SCOPE)
    set(PLUMBLINE_TORCH_LIBRARIES ${libraries} PARENT_SCOPE)  # the folder that they lie in
    message(STATUS "Plumbline: LibTorch ${version} in ${root}")
    return()
  endforeach()
  if(PLUMBLINE_TORCH STREQUAL "ON")
    message(FATAL_ERROR "PLUMBLINE_TORCH=ON, but no LibTorch was found; pip install torch, or give its folder with "
      "-DTorch_DIR=.../share/cmake/Torch, or set PLUMBLINE_TORCH=OFF")
  endif()
  message(STATUS "Plumbline: no LibTorch; the training module is not built")
endfunction()

set(PLUMBLINE_HAS_TORCH FALSE)
if(NOT PLUMBLINE_TORCH STREQUAL "OFF")
  plumbline_find_torch()
endif()
set(PLUMBLINE_FOUND_TORCH ${PLUMBLINE_HAS_TORCH} CACHE INTERNAL "For ci/setup.sh")
