# One library per folder: zp_add_library(NAME DEPENDS ...) takes every .cpp of the calling folder. Usage requirements sit on
# targets only; nothing here sets global flags.

add_library(zp_options INTERFACE)
# g++ 12's warnings that depend on what it inlines speak of empty std::optional and of std::string that are used correctly; the
# sanitizers look for real faults. A release build of users does not fail on what a newer compiler warns of.
target_compile_options(zp_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<$<BOOL:${ZP_WERROR}>:-Werror> -Wshadow
  -Wnon-virtual-dtor
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>>)
target_include_directories(zp_options INTERFACE ${PROJECT_SOURCE_DIR})
if(ZP_SANITIZE STREQUAL "address")
  target_compile_options(zp_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(zp_options INTERFACE -fsanitize=address,undefined)
elseif(ZP_SANITIZE STREQUAL "thread")
  target_compile_options(zp_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(zp_options INTERFACE -fsanitize=thread)
elseif(ZP_SANITIZE STREQUAL "fuzzer")
  target_compile_options(zp_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(zp_options INTERFACE -fsanitize=address,undefined)
elseif(NOT ZP_SANITIZE STREQUAL "")
  message(FATAL_ERROR "ZP_SANITIZE is '${ZP_SANITIZE}', expected address, thread, fuzzer or nothing")
endif()

# A user's first build has no cache to draw on: its files are compiled in groups, so that headers are parsed once for each group.
function(zp_first_build name)
  if(ZP_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 20)
  endif()
endfunction()

# What lies in a folder `cuda` belongs to the plug-in and is built only with ZP_CUDA.
function(zp_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/cuda/")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC zp_options ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
    zp_first_build(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE zp_options ${ARG_DEPENDS})
  endif()
endfunction()

# zp_add_test(NAME LABELS ... NOT_SANITIZED PATTERN NOT_IN_TSAN PATTERN DEPENDS ...): one GoogleTest program of all .cpp files of the calling folder. Labels: `unit`; `threads` for
# what several threads touch (runs under ThreadSanitizer too); `processes` for what starts the program itself; `slow` and `gpu`, left out where they would not pay or cannot run.
# Plain builds register each test by itself; sanitizer builds each program, as starting a sanitized process costs more than most tests,
# without the tests of NOT_SANITIZED, which would take them many minutes to say the same again; and under ThreadSanitizer without those
# of NOT_IN_TSAN, where libraries that it has not seen compiled would speak of themselves.
add_custom_target(thread_tests)
function(zp_add_test name)
  cmake_parse_arguments(ARG "" "NOT_SANITIZED;NOT_IN_TSAN" "DEPENDS;LABELS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE zp_options ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  # GoogleTest's macros shadow names, and g++ 12 asks designated initialisers for members that have defaults.
  target_compile_options(${name} PRIVATE -Wno-shadow -Wno-missing-field-initializers)
  target_compile_definitions(${name} PRIVATE ZP_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ZP_PROGRAM="$<TARGET_FILE:zeroplan>")
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests ${name})
  endif()
  if(ZP_SANITIZE STREQUAL "")
    add_dependencies(${name} zeroplan)
    string(REPLACE ";" "\\;" labels "${ARG_LABELS}")
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS "${labels}")
  else()
    if(ZP_SANITIZE STREQUAL "address" OR "processes" IN_LIST ARG_LABELS)
      add_dependencies(${name} zeroplan)
    endif()
    set(left_out "${ARG_NOT_SANITIZED}")
    if(ZP_SANITIZE STREQUAL "thread")
      string(APPEND left_out ":${ARG_NOT_IN_TSAN}")
    endif()
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 --gtest_filter=-${left_out})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800 LABELS "${ARG_LABELS}")
  endif()
endfunction()
