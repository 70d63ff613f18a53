#include "runtime/data/token_source.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "runtime/counter_random.h"
#include "runtime/data/mapped_file.h"

namespace zeroplan::runtime {
namespace {

constexpr std::int32_t kNotCounted = -100;
/// Vocabularies below this are stored as uint16.
constexpr std::uint64_t kWideVocabulary = 65536;

Error bad_data(const std::filesystem::path& path, const std::string& text, const std::string& hint) {
  return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", path.string(), text))
      .at({.file = path.string()})
      .hint(hint);
}

/// Token ids in a file, with or without a file of labels.
template <class Id>
class TokenFile final : public TokenSource {
 public:
  TokenFile(const DataFlags& flags) : file_(flags.data), ids_(file_.as<Id>()) {
    if (file_.size() % sizeof(Id) != 0) {
      throw bad_data(file_.path(),
                     fmt::format("{} bytes, expected a multiple of {} (one token)", file_.size(), sizeof(Id)),
                     fmt::format("a vocabulary of {} words is stored as uint{}", flags.vocabulary, 8 * sizeof(Id)));
    }
    const auto wrong = std::find_if(ids_.begin(), ids_.end(), [&](Id id) { return id >= flags.vocabulary; });
    if (wrong != ids_.end()) {
      throw bad_data(file_.path(),
                     fmt::format("token {} at position {}, expected below the vocabulary of {}", *wrong,
                                 wrong - ids_.begin(), flags.vocabulary),
                     "tokenise the data with the tokenizer of this model");
    }
    if (flags.labels) open_labels(*flags.labels, flags.vocabulary);
  }

  std::uint64_t tokens() const override { return ids_.size(); }
  void read(std::uint64_t first, std::span<std::int32_t> target) const override {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = static_cast<std::int32_t>(ids_[first + i]);
  }
  void read_labels(std::uint64_t first, std::span<std::int32_t> target) const override {
    if (!labels_) return read(first, target);
    const auto labels = labels_->template as<std::int32_t>().subspan(first, target.size());
    std::copy(labels.begin(), labels.end(), target.begin());
  }
  bool counts_all() const override { return !labels_; }

 private:
  void open_labels(const std::string& path, std::uint64_t vocabulary) {
    labels_.emplace(path);
    const auto labels = labels_->as<std::int32_t>();
    if (labels_->size() != ids_.size() * sizeof(std::int32_t)) {
      throw bad_data(path,
                     fmt::format("{} bytes, expected {}: one int32 for each token", labels_->size(),
                                 ids_.size() * sizeof(std::int32_t)),
                     "write one label a token, -100 where it does not count");
    }
    const auto wrong = std::find_if(labels.begin(), labels.end(), [&](std::int32_t label) {
      return label != kNotCounted && (label < 0 || static_cast<std::uint64_t>(label) >= vocabulary);
    });
    if (wrong != labels.end()) {
      throw bad_data(path,
                     fmt::format("label {} at position {}, expected -100 or 0 to {}", *wrong, wrong - labels.begin(),
                                 vocabulary - 1),
                     "write -100 where a token does not count");
    }
  }

  MappedFile file_;
  std::span<const Id> ids_;
  std::optional<MappedFile> labels_;
};

/// Regular files below a folder, but hidden ones, by path.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied);
       it != fs::recursive_directory_iterator(); ++it) {
    const bool is_hidden = it->path().filename().string().starts_with(".");
    if (is_hidden && it->is_directory()) it.disable_recursion_pending();
    if (!is_hidden && it->is_regular_file() && it->file_size() > 0) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The bytes of one or many files, one after another.
class TextBytes final : public TokenSource {
 public:
  explicit TextBytes(const DataFlags& flags) {
    if (flags.vocabulary < 256) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("--data {}: text is read as bytes and needs a vocabulary of 256, the model has {}",
                              flags.data, flags.vocabulary))
          .at({.file = flags.data})
          .hint("give a .bin file of token ids");
    }
    if (std::filesystem::is_directory(flags.data)) {
      for (const auto& path : files_below(flags.data)) add(MappedFile(path));
    } else {
      add(MappedFile(flags.data));
    }
  }

  std::uint64_t tokens() const override { return total_; }
  void read(std::uint64_t first, std::span<std::int32_t> target) const override {
    auto part = std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin() - 1;
    std::uint64_t at = first - begins_[static_cast<std::size_t>(part)];
    for (std::int32_t& token : target) {
      while (at >= files_[static_cast<std::size_t>(part)].size()) {
        ++part;
        at = 0;
      }
      token = files_[static_cast<std::size_t>(part)].as<std::uint8_t>()[at++];
    }
  }

 private:
  void add(MappedFile file) {
    if (file.size() == 0) return;
    begins_.push_back(total_);
    total_ += file.size();
    files_.push_back(std::move(file));
  }

  std::vector<MappedFile> files_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t total_ = 0;
};

/// Tokens by position and seed.
class RandomTokens final : public TokenSource {
 public:
  explicit RandomTokens(const DataFlags& flags) : vocabulary_(flags.vocabulary), seed_(flags.seed) {}
  std::uint64_t tokens() const override { return std::uint64_t{1} << 40; }
  void read(std::uint64_t first, std::span<std::int32_t> target) const override {
    for (std::size_t i = 0; i < target.size(); ++i) {
      target[i] = static_cast<std::int32_t>(random_bits(seed_, kStream, first + i) % vocabulary_);
    }
  }

 private:
  static constexpr std::uint64_t kStream = hash_text("random tokens");
  std::uint64_t vocabulary_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const DataFlags& flags) {
  if (flags.vocabulary == 0 || flags.vocabulary > (std::uint64_t{1} << 31)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("a vocabulary of {} words cannot be trained", flags.vocabulary));
  }
  const bool is_token_file = flags.data.ends_with(".bin");
  if (flags.labels && !is_token_file) {
    throw Error(ErrorCode::kUsage, fmt::format("--labels needs --data with a .bin file, found {}", flags.data))
        .at({.key = "--labels"});
  }
  if (flags.data == "random") return std::make_unique<RandomTokens>(flags);
  if (!is_token_file) return std::make_unique<TextBytes>(flags);
  if (flags.vocabulary < kWideVocabulary) return std::make_unique<TokenFile<std::uint16_t>>(flags);
  return std::make_unique<TokenFile<std::uint32_t>>(flags);
}

}  // namespace zeroplan::runtime
