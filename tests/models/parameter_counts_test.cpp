// Every model of tests/golden/model_configs.jsonl against what transformers 5.17 built from it: figures, names, shapes,
// order.
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/core/text.h"
#include "models/parameter_summary.h"
#include "tests/models/model_testing.h"

namespace zeroplan::models {
namespace {

struct Golden {
  std::string name;
  std::string config;
  std::vector<std::string>
      fields;  ///< total, trainable, with_tied_twice, tensors, largest module, its name, hash of names
};

std::vector<Golden> read_golden() {
  const std::string folder = std::string(ZP_SOURCE_DIR) + "/tests/golden/";
  std::map<std::string, std::vector<std::string>> rows;
  std::ifstream counts(folder + "parameter_counts.tsv");
  for (std::string line; std::getline(counts, line);) {
    std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != 8) continue;
    const std::string name = fields[0];
    fields.erase(fields.begin());
    rows[name] = std::move(fields);
  }
  std::vector<Golden> golden;
  std::ifstream configs(folder + "model_configs.jsonl");
  for (std::string line; std::getline(configs, line);) {
    const Json document = parse_json(line, "model_configs.jsonl");
    const std::string name = document.at("name").get<std::string>();
    golden.push_back({name, document.at("config").dump(), rows.at(name)});
  }
  return golden;
}

std::string hash_of_names(const Model& model) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const Parameter& parameter : model.parameters) {
    for (const unsigned char byte : parameter.name + " " + to_string(parameter.shape) + "\n") {
      value = (value ^ byte) * 0x100000001b3;
    }
  }
  return fmt::format("{:016x}", value);
}

class ParameterCounts : public testing::TestWithParam<Golden> {};

TEST_P(ParameterCounts, EqualWhatTransformersBuilds) {
  const Model model = model_of(GetParam().config);
  const ParameterSummary summary = summarise(model);
  const std::vector<std::string> found = {std::to_string(summary.total.count()),
                                          std::to_string(summary.trainable.count()),
                                          std::to_string(summary.with_tied_twice.count()),
                                          std::to_string(summary.tensor_count),
                                          std::to_string(summary.largest_module.count()),
                                          summary.largest_module_name,
                                          hash_of_names(model)};
  EXPECT_EQ(found, GetParam().fields);
}

TEST_P(ParameterCounts, UnitsHoldEveryParameter) {
  const Model model = model_of(GetParam().config);
  std::vector<int> uses(model.parameters.size());
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const std::size_t p : model.units[u].parameters) {
      ++uses.at(p);
      if (model.parameters[p].unit == u) continue;
      // Used by another unit as well: then it has a second name there.
      const bool is_tied = std::any_of(model.tied.begin(), model.tied.end(),
                                       [&](const TiedName& tied) { return tied.parameter == p && tied.unit == u; });
      EXPECT_TRUE(is_tied) << model.parameters[p].name << " in " << model.units[u].name;
    }
  }
  for (std::size_t p = 0; p < uses.size(); ++p) EXPECT_GE(uses[p], 1) << model.parameters[p].name;
}

INSTANTIATE_TEST_SUITE_P(Models, ParameterCounts, testing::ValuesIn(read_golden()), [](const auto& test) {
  std::string name;
  for (const char c : test.param.name) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace zeroplan::models
