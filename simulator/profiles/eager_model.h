// A model's forward pass in eager PyTorch, as transformers (5.x) writes it. Main type: EagerModel: binds Hugging Face
// parameters to the tape and runs units (embedding, blocks, head and loss). Depends on models, planner/training_spec
// and the tape.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "models/model.h"
#include "planner/strategy.h"
#include "planner/training_spec.h"
#include "simulator/profiles/block_modules.h"
#include "simulator/profiles/eager_ops.h"
#include "simulator/profiles/unit_hooks.h"
#include "simulator/states.h"

namespace zeroplan::simulator {

/// What of a run decides the forward pass.
struct PassSettings {
  std::uint64_t micro_batch = 1;
  std::uint64_t seq = 1;
  DType parameter_dtype = DType::kFp32;
  bool autocast = false;
  planner::AttentionKind attention = planner::AttentionKind::kSdpa;
  planner::Recompute recompute = planner::Recompute::kNone;
};

/// Tensors that the training script still holds when the forward pass has returned.
struct ForwardResult {
  Tensor loss;
  Tensor logits;
};

class EagerModel {
 public:
  /// \throws Error{kUnsupported} for a family whose blocks are unknown.
  EagerModel(EagerTape& tape, const models::Model& model, const TrainedParameters& trained,
             const PassSettings& settings);

  ForwardResult forward(UnitHooks& hooks);

  /// Tape parameters of a model's unit, and those that are used by it first (tied ones belong to their first unit).
  const std::vector<ParameterId>& unit_parameters(std::size_t unit) const { return unit_parameters_[unit]; }
  std::size_t unit_count() const { return unit_parameters_.size(); }
  /// Shape of a tape parameter, adapters included.
  const Shape& shape(ParameterId id) const { return shapes_[id]; }

 private:
  struct Embeddings {
    std::vector<ParameterId> tables;
    NormModule norm;
    LinearModule projection;
  };
  struct Head {
    NormModule norm;
    LinearModule dense;  ///< bert: a dense layer and a norm before the vocabulary
    NormModule dense_norm;
    LinearModule output, projection;
  };

  void bind_unit(std::size_t unit);
  BlockModules bind_block(const std::map<std::string, std::size_t, std::less<>>& names) const;
  LinearModule bind_linear(const std::map<std::string, std::size_t, std::less<>>& names,
                           std::initializer_list<std::string_view> candidates) const;
  NormModule bind_norm(const std::map<std::string, std::size_t, std::less<>>& names,
                       std::initializer_list<std::string_view> candidates) const;
  Tensor run_unit(std::size_t unit, Tensor input, UnitHooks& hooks, const std::function<Tensor(Tensor)>& body);

  Tensor apply(const Tensor& x, const LinearModule& module, SiteId site, bool flat_input = false);
  Tensor apply(const Tensor& x, const NormModule& module, std::uint64_t width);
  Tensor rotate(const Tensor& x, std::uint64_t head_size);
  /// What blocks are handed beside their input.
  struct BlockContext {
    Tensor mask;        ///< eager attention: additive, one a sequence
    Tensor bias;        ///< t5: position bias, one a head
    Tensor cross_bias;  ///< t5: zeros of the same size for cross attention
    Tensor memory;      ///< what cross attention reads
  };
  Tensor attend(const Tensor& x, const AttentionModules& a, bool causal, const BlockContext& context);
  Tensor cross_attend(const Tensor& x, const AttentionModules& a, const BlockContext& context);
  Tensor feed_forward(const Tensor& x, const MlpModules& m);
  Tensor activate(const Tensor& x);
  Tensor route(const Tensor& x, const LinearModule& router);
  Tensor gate_experts(const Tensor& gate, const Tensor& up);
  Tensor mixture(const Tensor& x, const BlockModules& b);
  Tensor block(const Tensor& x, const BlockModules& b, const BlockContext& context);
  Tensor checkpointed_block(const Tensor& x, const BlockModules& b, const BlockContext& context);
  /// The position bias of a t5 stack, and the zeros of its cross attention.
  void make_position_bias(const BlockModules& b, BlockContext& context);
  Tensor embed(const Embeddings& e, const Tensor& ids);
  Tensor head(Tensor x, const Head& h, Tensor& logits_out);

  EagerTape& t_;
  const models::Model& model_;
  FamilyStyle style_;
  PassSettings settings_;
  std::uint64_t tokens_ = 0;
  std::vector<ParameterId> ids_;           ///< by index into Model::parameters
  std::vector<ParameterId> adapter_down_;  ///< by index into Model::parameters, kNone mostly
  std::vector<ParameterId> adapter_up_;
  std::vector<bool> quantised_;
  std::uint64_t rank_ = 0;
  std::vector<Shape> shapes_;
  std::vector<std::vector<ParameterId>> unit_parameters_;
  std::vector<BlockModules> blocks_;  ///< by unit; empty for others
  Embeddings embeddings_;
  Head head_;
  std::vector<NormModule> other_norms_;  ///< by unit: a stack's final norm
  std::uint64_t rotary_size_ = 0;
  Tensor cosine_, sine_;  ///< rotary tables, while blocks run
  Tensor batch_;          ///< token ids, which are the labels too
};

}  // namespace zeroplan::simulator
