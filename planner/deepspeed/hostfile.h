// Which cards of which hosts take part in a run. Purpose: read hostfiles, apply include and exclude filters and counts,
// and resolve the local host. Main types: Host, HostSlots. Depends on models/core only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/error.h"

namespace zeroplan::planner::deepspeed {

/// A line of a hostfile: "[user@]host slots=N".
struct Host {
  std::string name;
  std::uint64_t slots = 0;
  friend bool operator==(const Host&, const Host&) = default;
};

/// A host with the cards that are used, ascending.
struct HostSlots {
  std::string name;
  std::vector<std::uint64_t> slots;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

constexpr std::uint64_t kMostSlotsPerHost = 4096;
constexpr std::size_t kMostHosts = 100'000;

/// Reads "[user@]host slots=N" lines; `#` starts a comment.
/// \throws Error{kInvalidInput} with the line for a bad line, no slots, a host that stands twice, or no host at all.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& file);

/// "host", "host:0,2", joined by '@'. A name of the pool may itself have an '@' (user@host).
/// \throws Error{kUsage} for hosts and slots that the pool lacks, and for what is no slot number.
std::vector<HostSlots> include_hosts(const std::vector<Host>& pool, std::string_view filter);
std::vector<HostSlots> exclude_hosts(const std::vector<Host>& pool, std::string_view filter);

/// How the resources of a run are narrowed; the two filters exclude each other, and the two counts.
struct ResourceRequest {
  std::string include;
  std::string exclude;
  std::optional<std::uint64_t> num_nodes;
  std::optional<std::uint64_t> num_gpus;
};

/// What a run gets, ranks in this order.
struct Resources {
  std::vector<HostSlots> hosts;
  std::vector<std::string> warnings;

  std::uint64_t world_size() const;
};

/// With a hostfile. \throws Error{kUsage}
Resources resolve_pool(const std::vector<Host>& pool, const ResourceRequest& request);

/// Without one: this host. `visible`: the content of CUDA_VISIBLE_DEVICES (physical ids), absent or empty if unset.
/// \param cards  how many this host has (or is said to have); unknown is 0
/// \throws Error{kUsage}
Resources resolve_local(std::uint64_t cards, const std::optional<std::string>& visible, const ResourceRequest& request);

}  // namespace zeroplan::planner::deepspeed
