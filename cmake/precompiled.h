// What most files of the libraries include, parsed once for each library in a release build (ZP_PRECOMPILED). Every file
// still includes what it uses: other builds compile without this one.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
