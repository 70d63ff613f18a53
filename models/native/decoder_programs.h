// Op lists of the decoders that the runtime trains: GPT-2 and the Llama family. Main types: ProgramOptions,
// BlockRecompute. What a block keeps for its backward pass per token (c = bytes of the compute type): the attention's
// q, k, v and output, the residual between its halves and the pre-activations of the MLP; normalised inputs and
// activation outputs are computed again.
#pragma once

#include "models/model.h"
#include "models/program.h"

namespace zeroplan::models {

/// How much of a block's forward pass its backward program repeats.
enum class BlockRecompute { kNothing, kAttentionCore, kEverything };

/// Whose kernels run a program: it decides which scratch memory the program gives them.
enum class KernelSet { kCpu, kCuda };

/// What decides the shapes of a program.
struct ProgramOptions {
  std::uint64_t batch = 1;  ///< sequences
  std::uint64_t seq = 1;    ///< tokens of each
  DType compute = DType::kFp32;
  DType gradient = DType::kFp32;  ///< of the parameters' gradients: `compute`, or fp32
  std::uint64_t alignment = 64;   ///< of saved tensors, bytes
  std::uint64_t head_chunks = 1;
  BlockRecompute recompute = BlockRecompute::kNothing;
  bool accumulate_gradients = false;  ///< parameter gradients are added to those of earlier passes
  KernelSet kernels = KernelSet::kCpu;
};

/// `unit` is an index into model.units of the right kind; model.decoder is set.
Program embedding_forward(const Model& model, std::size_t unit, const ProgramOptions& options);
/// With a tied head the table's gradient is always added to what the head wrote.
Program embedding_backward(const Model& model, std::size_t unit, const ProgramOptions& options);
/// \param keeps  false: nothing is saved (eval, or a block that is recomputed)
Program block_forward(const Model& model, std::size_t unit, const ProgramOptions& options, bool keeps);
Program block_backward(const Model& model, std::size_t unit, const ProgramOptions& options);
/// Final norm, head in chunks and loss; with `trains` the backward pass too, so that no logits outlive their chunk.
Program head_loss(const Model& model, std::size_t unit, const ProgramOptions& options, bool trains);

}  // namespace zeroplan::models
