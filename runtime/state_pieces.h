// Where the states of a group lie on one rank. Purpose: shard or whole group, with or without master weights, resolved
// to addresses once. Main types: StatePiece, GroupState. Depends on planner/plan.
#pragma once

#include <vector>

#include "runtime/arena.h"

namespace zeroplan::runtime {

/// A range of elements of one group with the addresses of its first element in every state.
struct StatePiece {
  std::size_t count = 0;
  Elements group_begin;  ///< element of the padded group at which it begins
  DType parameter_dtype = DType::kFp32;
  DType gradient_dtype = DType::kFp32;
  std::byte* parameters = nullptr;
  std::byte* gradients = nullptr;
  float* master = nullptr;  ///< null without mixed precision
  std::vector<std::byte*> moments;
};

/// All states of one group: what init fills and what a checkpoint keeps.
struct GroupState {
  std::uint32_t group = 0;
  DType parameter_dtype = DType::kFp32;
  DType moment_dtype = DType::kFp32;
  std::byte* parameters = nullptr;
  Elements parameters_begin;  ///< element of the padded group at which `parameters` begins
  Elements parameters_count;
  float* master = nullptr;  ///< null without mixed precision
  std::vector<std::byte*> moments;
  Elements states_begin;  ///< likewise, of master weights and moments
  Elements states_count;
};

/// \param shard_only  only this rank's shard, although all ranks keep and update the whole group (the norm at stage 0)
/// \throws Error{kInvalidInput} for ranges beyond their buffers
StatePiece resolve_piece(const planner::Plan& plan, const planner::UpdatePiece& piece, std::uint64_t rank,
                         const Arenas& arenas, bool shard_only);
/// The group of a kLoad or kSave task.
GroupState resolve_group(const planner::Plan& plan, const planner::UpdatePiece& piece, std::uint64_t rank,
                         const Arenas& arenas);

}  // namespace zeroplan::runtime
