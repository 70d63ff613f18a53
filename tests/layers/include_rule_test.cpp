#include "tests/layers/include_rule.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace zeroplan::layers {
namespace {

constexpr std::array kFolders{"models", "kernels", "planner", "simulator", "runtime", "reports", "cli"};

bool is_source(const std::filesystem::path& path) {
  static const std::set<std::string> kEndings{".h", ".cpp", ".cu", ".cuh", ".in"};
  return kEndings.contains(path.extension().string());
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Calls `visit(path from the root, text)` for each source of the program.
template <class Visit>
int for_each_source(Visit visit) {
  const std::filesystem::path root(ZP_SOURCE_DIR);
  int count = 0;
  for (const char* folder : kFolders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      visit(entry.path().lexically_relative(root).generic_string(), read_text(entry.path()));
      ++count;
    }
  }
  return count;
}

TEST(Layers, EverySourceKeepsTheRule) {
  int includes = 0;
  const int sources = for_each_source([&](const std::string& file, const std::string& text) {
    for (const Include& include : quoted_includes(text)) {
      ++includes;
      const auto why = violation(file, include.path);
      EXPECT_FALSE(why) << file << ":" << include.line << ": " << why.value_or("");
    }
  });
  // Reading the wrong folder would find nothing wrong.
  EXPECT_GT(sources, 100);
  EXPECT_GT(includes, sources);
}

TEST(Layers, EveryQuotedIncludeIsAFileFromTheRoot) {
  for_each_source([](const std::string& file, const std::string& text) {
    for (const Include& include : quoted_includes(text)) {
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(ZP_SOURCE_DIR) / include.path))
          << file << ":" << include.line << ": no file " << include.path << " from the repository root";
    }
  });
}

TEST(Layers, EveryHeaderIsIncludedOnce) {
  for_each_source([](const std::string& file, const std::string& text) {
    // Highway's headers compiled once per target must be read several times.
    if (!file.ends_with(".h") || file.ends_with("-inl.h")) return;
    EXPECT_NE(text.find("#pragma once"), std::string::npos) << file;
  });
}

TEST(Layers, MadeUpIncludesAgainstTheDirectionAreRejected) {
  constexpr std::array<std::pair<const char*, const char*>, 11> kWrong{{
      {"models/model.h", "planner/plan.h"},
      {"models/core/error.h", "kernels/kernels.h"},
      {"kernels/cpu/linear.cpp", "models/model.h"},
      {"kernels/linear.h", "runtime/arena.h"},
      {"planner/plan.h", "simulator/event_simulator.h"},
      {"planner/plan.h", "kernels/kernels.h"},
      {"simulator/event_simulator.cpp", "runtime/arena.h"},
      {"simulator/event_simulator.cpp", "kernels/kernels.h"},
      {"runtime/arena.cpp", "simulator/event_simulator.h"},
      {"reports/text.cpp", "cli/command.h"},
      {"cli/main.cpp", "tests/support/anything.h"},
  }};
  for (const auto& [file, included] : kWrong) EXPECT_TRUE(violation(file, included)) << file << " -> " << included;
}

TEST(Layers, IncludesAlongTheDirectionAreAccepted) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kRight{{
      {"models/model.h", "models/core/units.h"},
      {"kernels/linear.h", "models/core/dtype.h"},
      {"planner/plan.h", "models/model.h"},
      {"simulator/evaluator.cpp", "planner/plan.h"},
      {"runtime/trainer.cpp", "kernels/kernels.h"},
      {"reports/text.cpp", "runtime/arena.h"},
      {"cli/main.cpp", "reports/text.h"},
  }};
  for (const auto& [file, included] : kRight) EXPECT_FALSE(violation(file, included)) << file << " -> " << included;
}

TEST(Includes, QuotedOnesAreFoundHoweverTheyAreSpaced) {
  const auto found =
      quoted_includes("#include <vector>\n  #  include \"a/b.h\"\nint x;  // #include \"no.h\"\n#include\"c.h\"");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, "a/b.h");
  EXPECT_EQ(found[0].line, 2);
  EXPECT_EQ(found[1].path, "c.h");
  EXPECT_EQ(found[1].line, 4);
}

}  // namespace
}  // namespace zeroplan::layers
