# The CUDA toolkit, for kernels alone: sets PLUMBLINE_HAS_CUDA and offers plumbline_cuda_library().
#
# What is built with it starts on a machine without a driver: the runtime is linked statically, and asks for the driver when it
# is first used.
set(PLUMBLINE_CUDA AUTO CACHE STRING "Build what needs nvcc: AUTO (where it is found), ON, OFF")
set(PLUMBLINE_CUDA_OLDEST 12.1)  # tables of 32 KB as parameters of a kernel, and C++20

# Sanitizers are the host compiler's; what they would say of device code is nothing.
set(PLUMBLINE_HAS_CUDA FALSE)
if(PLUMBLINE_CUDA STREQUAL "ON" AND PLUMBLINE_SANITIZE)
  message(FATAL_ERROR "PLUMBLINE_CUDA=ON with PLUMBLINE_SANITIZE=${PLUMBLINE_SANITIZE}; set PLUMBLINE_CUDA=OFF")
elseif(NOT PLUMBLINE_CUDA STREQUAL "OFF" AND NOT PLUMBLINE_SANITIZE)
  # Before the language is looked for: no toolkit is no reason to try all that CMake tries.
  if(DEFINED ENV{CUDACXX})
    set(PLUMBLINE_NVCC $ENV{CUDACXX})
  else()
    find_program(PLUMBLINE_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    if(PLUMBLINE_NVCC)
      set(ENV{CUDACXX} ${PLUMBLINE_NVCC})
    endif()
  endif()
  # A toolkit that does not know the architectures below would be an error where the language is enabled.
  set(said)
  if(PLUMBLINE_NVCC)
    execute_process(COMMAND ${PLUMBLINE_NVCC} --version OUTPUT_VARIABLE said ERROR_QUIET)
  endif()
  if(said MATCHES "release ([0-9.]+)" AND NOT CMAKE_MATCH_1 VERSION_LESS PLUMBLINE_CUDA_OLDEST)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    # Binaries for the A100 and the H100 and H200, and PTX for what comes after them.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CMake up to 3.25 does not know what nvcc 13 calls C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit)
    if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER_VERSION VERSION_LESS PLUMBLINE_CUDA_OLDEST)
      set(PLUMBLINE_HAS_CUDA TRUE)
    endif()
  endif()
  if(PLUMBLINE_CUDA STREQUAL "ON" AND NOT PLUMBLINE_HAS_CUDA)
    message(FATAL_ERROR "PLUMBLINE_CUDA=ON, but no CUDA toolkit from ${PLUMBLINE_CUDA_OLDEST} on was found; install one, name "
      "its nvcc with CUDACXX, or set PLUMBLINE_CUDA=OFF")
  endif()
endif()
if(PLUMBLINE_HAS_CUDA)
  plumbline_note_linked(cudart_static ${CUDAToolkit_VERSION} LicenseRef-NVIDIA-CUDA-EULA)
  message(STATUS "Plumbline: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
  if(PLUMBLINE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${PLUMBLINE_CCACHE})
  endif()
else()
  message(STATUS "Plumbline: CUDA FALSE")
endif()

# plumbline_cuda_library(name SOURCES … LINKS … PRIVATE_LINKS …): a plumbline_library() with files for nvcc among its sources.
function(plumbline_cuda_library name)
  plumbline_library(${name} ${ARGN})
  set_target_properties(plumbline_${name} PROPERTIES CUDA_VISIBILITY_PRESET hidden CUDA_STANDARD 20 UNITY_BUILD OFF)
  # Kernels have the bits of the host: each operation is rounded, none fused with another.
  target_compile_options(plumbline_${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
  target_link_libraries(plumbline_${name} PRIVATE CUDA::cudart_static)
endfunction()
