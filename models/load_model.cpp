#include "models/load_model.h"

#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/checkpoint_type.h"
#include "models/family.h"
#include "models/hf_config.h"
#include "models/presets.h"
#include "models/tensor_model.h"

namespace zeroplan::models {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kConfigLimits = {.most_bytes = std::uint64_t{16} << 20, .most_depth = 64};

/// "folder/gpt2.json" is "gpt2", "folder/gpt2/config.json" is "gpt2".
std::string name_of(const std::string& source) {
  fs::path path = fs::path(source).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "config.json" && path.has_parent_path()) path = path.parent_path();
  const std::string extension = path.extension().string();
  const bool is_file = extension == ".json" || extension == ".safetensors";
  std::string name = is_file ? path.stem().string() : path.filename().string();
  return name.empty() || name == "." ? "model" : name;
}

/// model_type, or what the class name in `architectures` says in configs that are older than the key.
std::string model_type_of(const HfConfig& config) {
  if (config.has("model_type")) return config.text({"model_type"}, "");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kClassNames = {{{"GPT2", "gpt2"},
                                                                                         {"GPTNeoX", "gpt_neox"},
                                                                                         {"LLaMA", "llama"},
                                                                                         {"Llama", "llama"},
                                                                                         {"OPT", "opt"},
                                                                                         {"Bloom", "bloom"},
                                                                                         {"T5", "t5"},
                                                                                         {"Bert", "bert"}}};
  const std::string architecture = config.architecture();
  for (const auto& [start, type] : kClassNames) {
    if (architecture.rfind(start, 0) == 0) return std::string(type);
  }
  throw config.unexpected("model_type", "the name of a model family",
                          "is this the config.json of a Hugging Face model? Add its model_type, such as \"llama\"");
}

void note_dropout(const HfConfig& config, const Family& family, Model& model) {
  constexpr std::array<std::string_view, 16> kKeys = {
      "attn_pdrop",     "embd_pdrop",          "resid_pdrop",       "attention_dropout",
      "hidden_dropout", "hidden_dropout_prob", "dropout",           "attention_probs_dropout_prob",
      "dropout_rate",   "embedding_dropout",   "residual_dropout",  "activation_dropout",
      "layerdrop",      "encoder_layerdrop",   "decoder_layerdrop", "classifier_dropout"};
  std::vector<std::string> found;
  bool is_any_stated = false;
  for (const std::string_view key : kKeys) {
    if (!config.has(key)) continue;
    is_any_stated = true;
    const double value = config.number({key}, 0);
    if (value < 0 || value > 1) throw config.unexpected(key, "a probability from 0 to 1", "0 turns dropout off");
    if (value > 0) found.push_back(fmt::format("{} = {}", key, value));
  }
  if (!is_any_stated && !family.dropout_by_default.empty()) found.push_back(std::string(family.dropout_by_default));
  if (!found.empty()) {
    model.notes.push_back(fmt::format("dropout of the config ({}) is taken as 0", fmt::join(found, ", ")));
  }
}

[[noreturn]] void throw_unknown_family(const HfConfig& config, const std::string& type) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) known.push_back(family.model_type);
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: model_type is {}, expected one of {}", config.view().file(),
                                                   type, fmt::join(known, ", ")))
      .at({.file = config.view().file(), .key = "model_type", .value = type})
      .hint(
          "give the model's .safetensors file or the folder that holds it: names and shapes are read from its header");
}

/// The model of a config file; where its family is not known, of the tensors beside it.
Model read_config_file(const fs::path& path) {
  const Json document = read_json_file(path, kConfigLimits);
  try {
    return build_model(document, path.string());
  } catch (const Error& error) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (error.code() != ErrorCode::kUnsupported || !TensorIndex::exists_in(folder)) throw;
    Model model = model_of_tensors(TensorIndex::open(folder), name_of(path.string()), path.string());
    const HfConfig config(JsonView(document, path.string()));
    model.family = model_type_of(config);
    model.config = document;
    return model;
  }
}

bool is_tensor_file(const fs::path& path) {
  constexpr std::string_view kIndexEnding = ".safetensors.index.json";
  const std::string text = path.string();
  return path.extension() == ".safetensors" ||
         (text.size() > kIndexEnding.size() &&
          text.compare(text.size() - kIndexEnding.size(), kIndexEnding.size(), kIndexEnding) == 0);
}

[[noreturn]] void throw_unknown_name(const std::string& source) {
  throw Error(ErrorCode::kUsage, fmt::format("{} is neither a file, a folder nor a preset", source))
      .at({.key = "MODEL", .value = source})
      .hint(fmt::format("the nearest presets are {}", fmt::join(nearest_presets(source), ", ")));
}

Model model_of_config(const HfConfig& config, const Json& document, const std::string& source) {
  Model model;
  model.name = name_of(source);
  model.source = source;
  model.config = document;
  model.family = model_type_of(config);
  const Family* family = find_family(model.family);
  if (family == nullptr) throw_unknown_family(config, model.family);
  read_checkpoint_type(config, model);
  note_dropout(config, *family, model);
  try {
    family->build(config, model);
    model.with_tied_twice();
  } catch (Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: the parameters of these sizes do not fit 64 bits", source))
        .at({.file = source})
        .hint("compare the sizes with the model's published config.json");
  }
  if (!config.assumed().empty()) {
    model.notes.push_back(
        fmt::format("absent keys have the defaults of {}: {}", model.family, fmt::join(config.assumed(), ", ")));
  }
  return model;
}

}  // namespace

Model build_model(const Json& document, const std::string& source) {
  try {
    return model_of_config(HfConfig(JsonView(document, source)), document, source);
  } catch (Error& error) {
    if (error.code() == ErrorCode::kInvalidInput) error.hint("compare this key with the model's published config.json");
    throw;
  }
}

Model load_model(const std::string& source) {
  std::error_code ignored;
  const fs::path path(source);
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    const fs::path config = path / "config.json";
    Model model;
    if (fs::exists(config, ignored)) {
      model = read_config_file(config);
    } else if (TensorIndex::exists_in(path)) {
      model = model_of_tensors(TensorIndex::open(path), name_of(source), source);
    } else {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{} holds neither config.json nor model.safetensors", source))
          .at({.file = source})
          .hint("name the folder of a Hugging Face model, a config file or a preset");
    }
    model.source = source;
    return model;
  }
  if (fs::exists(status) && is_tensor_file(path)) {
    return model_of_tensors(TensorIndex::open(path), name_of(source), source);
  }
  if (fs::exists(status)) return read_config_file(path);
  if (const Preset* preset = find_preset(source)) {
    Model model = build_model(parse_json(preset->config, std::string(preset->name)), std::string(preset->name));
    model.name = std::string(preset->name);
    return model;
  }
  throw_unknown_name(source);
}

}  // namespace zeroplan::models
