#include <cstring>

#include <fmt/format.h>

#include "cli/commands.h"
#include "kernels/ranges.h"
#include "models/core/file_io.h"
#include "models/core/text.h"
#include "models/load_model.h"
#include "models/safetensors.h"
#include "models/safetensors_writer.h"
#include "runtime/checkpoint/checkpoint_tensors.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/data/mapped_file.h"
#include "runtime/weights/weight_source.h"

namespace zeroplan::cli {
namespace {

namespace fs = std::filesystem;
using models::TensorToWrite;

DType parse_output_dtype(const std::string& text) {
  const auto dtype = parse_dtype(text);
  if (dtype == DType::kFp32 || dtype == DType::kBf16 || dtype == DType::kFp16) return *dtype;
  throw Error(ErrorCode::kUsage, fmt::format("--dtype {}: expected fp32, bf16 or fp16", text))
      .at({.key = "--dtype", .value = text});
}

std::vector<TensorToWrite> tensors_of(const models::Model& model, DType dtype) {
  std::vector<TensorToWrite> tensors;
  for (const models::Parameter& p : model.parameters) tensors.push_back({p.name, dtype, p.shape});
  return tensors;
}

/// Name of the file that holds shard `s` of `count`.
std::string file_name(std::size_t s, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, count);
}

bool is_checkpoint(const fs::path& source) {
  return fs::exists(source / "latest") || fs::exists(source / "manifest.json");
}

/// `convert SOURCE OUT`
class ConvertCommand : public Command {
 public:
  std::string name() const override { return "convert"; }
  std::string description() const override {
    return "writes a checkpoint or safetensors as safetensors for transformers";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("SOURCE", source_, "a checkpoint or safetensors; with --dry-run also a model")->required();
    app.add_option("OUT", out_, "folder to create");
    app.add_option("--dtype", dtype_, "fp32, bf16 or fp16 (fp32)");
    app.add_option("--to", to_, "safetensors");
    app.add_option("--shard-size", shard_size_, "largest file (5GB)");
    app.add_flag("--dry-run", dry_run_, "only say what would be written");
  }

  Answer run(const GlobalOptions&) override {
    const DType dtype = parse_output_dtype(dtype_);
    if (to_ != "safetensors") {
      throw Error(ErrorCode::kUnsupported, fmt::format("--to {}: this build writes safetensors", to_))
          .at({.key = "--to"});
    }
    if (out_.empty() && !dry_run_) throw Error(ErrorCode::kUsage, "convert needs OUT, a folder, or --dry-run");
    if (is_checkpoint(source_)) return from_checkpoint(dtype);
    const models::Model model = models::load_model(source_);
    if (dry_run_) return report(tensors_of(model, dtype), models::kWritePiece);
    const auto weights = runtime::safetensors_weights(model, source_);
    const auto read = [&](std::size_t p, Elements first, std::span<float> target) { weights->read(p, first, target); };
    return write(model, dtype, read, models::kWritePiece * 2);
  }

 private:
  using Read = std::function<void(std::size_t parameter, Elements first, std::span<float> target)>;

  Answer from_checkpoint(DType dtype) const {
    const runtime::Checkpoint checkpoint{fs::path(source_)};
    runtime::CheckpointTensors tensors(checkpoint);
    const Bytes host = models::kWritePiece * 2 + tensors.shard_bytes();
    if (dry_run_) return report(tensors_of(tensors.model(), dtype), host);
    const auto read = [&](std::size_t p, Elements first, std::span<float> target) { tensors.read(p, first, target); };
    return write(tensors.model(), dtype, read, host);
  }

  Answer write(const models::Model& model, DType dtype, const Read& read, Bytes host) const {
    const auto tensors = tensors_of(model, dtype);
    std::vector<float> values;
    const auto fill = [&](std::size_t tensor, Bytes offset, std::span<std::byte> target) {
      const std::uint64_t size = size_of(dtype);
      ZP_CHECK(offset.count() % size == 0 && target.size() % size == 0);
      values.resize(target.size() / size);
      read(tensor, Elements(offset.count() / size), values);
      kernels::reference::copy({.out_dtype = dtype, .count = values.size(), .x = values.data(), .out = target.data()});
    };
    std::map<std::string, std::string> others;
    if (!model.config.is_null()) others["config.json"] = model.config.dump(2) + "\n";
    models::write_safetensors_folder(out_, tensors, fill, parse_size(shard_size_, "--shard-size"), others);
    return report(tensors, host);
  }

  Answer report(const std::vector<TensorToWrite>& tensors, Bytes host) const {
    const auto shards = models::split_in_shards(tensors, parse_size(shard_size_, "--shard-size"));
    Json list = Json::array();
    Json files = Json::array();
    Bytes data;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      const std::string name = file_name(s, shards.size());
      for (const std::size_t t : shards[s]) {
        const TensorToWrite& tensor = tensors[t];
        data += tensor.size();
        list.push_back({{"name", tensor.name},
                        {"shape", tensor.shape.extents()},
                        {"dtype", to_string(tensor.type)},
                        {"bytes", tensor.size().count()},
                        {"file", name}});
      }
      if (!dry_run_) files.push_back(file_json(fs::path(out_) / name));
    }
    Answer answer;
    answer.document = {{"tensors", list}, {"data_bytes", data.count()}, {"host_bytes", host.count()}, {"files", files}};
    answer.text = fmt::format("{} tensors, {} of data in {} {}{}\n", tensors.size(), format_size(data), shards.size(),
                              shards.size() == 1 ? "file" : "files", dry_run_ ? " (nothing written)" : ": " + out_);
    return answer;
  }

  static Json file_json(const fs::path& path) {
    const runtime::MappedFile file(path);
    return {{"path", path.string()}, {"bytes", file.size()}, {"checksum", runtime::checksum(file.as<std::byte>())}};
  }

  std::string source_;
  std::string out_;
  std::string dtype_ = "fp32";
  std::string to_ = "safetensors";
  std::string shard_size_ = "5GB";
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() {
  return std::make_unique<ConvertCommand>();
}

}  // namespace zeroplan::cli
