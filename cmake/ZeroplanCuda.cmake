# CUDA, wanted by ZP_CUDA=ON: nvcc, cuBLASLt, and the headers of cuDNN, which is opened at run time where it is found.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "ZP_CUDA=ON needs nvcc: set CUDACXX to its path, or configure with ZP_CUDA=OFF; everything but GPU training "
                      "works without it")
endif()
set(ZP_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures that the CUDA kernels are compiled for")
set(CMAKE_CUDA_ARCHITECTURES "${ZP_CUDA_ARCHITECTURES}")
enable_language(CUDA)
# CMake 3.25 does not know that nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
# Libraries that lie in the compiler's own folders name them, and nvcc must not get them as -isystem: that hides math.h.
list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
find_package(CUDAToolkit REQUIRED)
find_path(ZP_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)

# What every CUDA source is compiled with. Products and sums are fused where the source says so and nowhere else, as in
# the CPU kernels.
add_library(zp_cuda_options INTERFACE)
target_compile_options(zp_cuda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr --extended-lambda -Xcompiler=-Wall,-Wextra
  $<$<BOOL:${ZP_WERROR}>:-Werror=all-warnings>>)
# The plug-in is a shared library of the same static ones.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
