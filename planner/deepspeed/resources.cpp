#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "models/core/text.h"
#include "planner/deepspeed/hostfile.h"

namespace zeroplan::planner::deepspeed {
namespace {

Error bad_filter(std::string_view flag, std::string_view value, const std::string& what) {
  return Error(ErrorCode::kUsage, fmt::format("--{} {}: {}", flag, value, what))
      .at({.key = fmt::format("--{}", flag), .value = std::string(value)})
      .hint("write `host` or `host:0,2`, joined by @");
}

const Host* find_host(const std::vector<Host>& pool, std::string_view name) {
  const auto it = std::find_if(pool.begin(), pool.end(), [name](const Host& host) { return host.name == name; });
  return it == pool.end() ? nullptr : &*it;
}

/// Host and slots of one entry, and how many parts it took. Names with '@' or ':' of the pool are found by trying the
/// longest.
struct FilterEntry {
  const Host* host = nullptr;
  std::vector<std::uint64_t> slots;  ///< empty: all of them
};

std::uint64_t parse_slot(std::string_view text, const Host& host, std::string_view flag, std::string_view filter) {
  std::uint64_t slot = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (text.empty() || status != std::errc() || end != text.data() + text.size()) {
    throw bad_filter(flag, filter, fmt::format("\"{}\" is no slot number of {}", text, host.name));
  }
  if (slot >= host.slots) {
    throw bad_filter(
        flag, filter,
        fmt::format("{} has no slot {}: slots={} are numbered 0 to {}", host.name, slot, host.slots, host.slots - 1));
  }
  return slot;
}

std::vector<std::uint64_t> parse_slots(std::string_view list, const Host& host, std::string_view flag,
                                       std::string_view filter) {
  std::set<std::uint64_t> slots;
  while (true) {
    const std::size_t comma = list.find(',');
    slots.insert(parse_slot(list.substr(0, comma), host, flag, filter));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return {slots.begin(), slots.end()};
}

std::optional<FilterEntry> parse_entry(const std::vector<Host>& pool, std::string_view entry, std::string_view flag,
                                       std::string_view filter) {
  if (const Host* whole = find_host(pool, entry)) return FilterEntry{whole, {}};
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos || entry.find('@', colon) != std::string_view::npos) return std::nullopt;
  const Host* host = find_host(pool, entry.substr(0, colon));
  if (host == nullptr) return std::nullopt;
  return FilterEntry{host, parse_slots(entry.substr(colon + 1), *host, flag, filter)};
}

/// Slots by host name. A whole host wins over some of its slots.
std::map<std::string, std::set<std::uint64_t>> parse_filter(const std::vector<Host>& pool, std::string_view filter,
                                                            std::string_view flag) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = filter;;) {
    const std::size_t at = rest.find('@');
    parts.push_back(rest.substr(0, at));
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + 1);
  }
  std::map<std::string, std::set<std::uint64_t>> chosen;
  std::size_t next = 0;
  while (next < parts.size()) {
    // "user@host" takes two parts: try it first, so that the name of the pool wins.
    std::optional<FilterEntry> entry;
    std::size_t taken = 0;
    for (const std::size_t length : {std::size_t{2}, std::size_t{1}}) {
      if (next + length > parts.size()) continue;
      const char* begin = parts[next].data();
      const std::string_view joined(
          begin, static_cast<std::size_t>(parts[next + length - 1].data() + parts[next + length - 1].size() - begin));
      entry = parse_entry(pool, joined, flag, filter);
      taken = length;
      if (entry) break;
    }
    if (!entry) {
      const std::string_view name = parts[next].substr(0, parts[next].find(':'));
      throw bad_filter(flag, filter, fmt::format("host \"{}\" is not in the hostfile", name));
    }
    std::set<std::uint64_t>& slots = chosen[entry->host->name];
    if (entry->slots.empty()) {
      for (std::uint64_t slot = 0; slot < entry->host->slots; ++slot) slots.insert(slot);
    } else {
      slots.insert(entry->slots.begin(), entry->slots.end());
    }
    next += taken;
  }
  return chosen;
}

std::vector<std::uint64_t> first_slots(std::uint64_t count) {
  std::vector<std::uint64_t> slots(count);
  for (std::uint64_t i = 0; i < count; ++i) slots[i] = i;
  return slots;
}

void check_request(const ResourceRequest& request) {
  if (!request.include.empty() && !request.exclude.empty()) {
    throw Error(ErrorCode::kUsage, "--include and --exclude exclude each other: expected one of them")
        .at({.key = "--include"});
  }
  const bool filtered = !request.include.empty() || !request.exclude.empty();
  if (filtered && (request.num_nodes || request.num_gpus)) {
    throw Error(ErrorCode::kUsage, "--include and --exclude do not go together with --num-nodes and --num-gpus")
        .at({.key = "--include"});
  }
  for (const auto& [flag, count] :
       {std::pair{"--num-nodes", request.num_nodes}, std::pair{"--num-gpus", request.num_gpus}}) {
    if (count && *count == 0) {
      throw Error(ErrorCode::kUsage, fmt::format("{} 0: expected at least 1", flag)).at({.key = flag, .value = "0"});
    }
  }
}

std::vector<HostSlots> narrowed(const std::vector<Host>& pool, const ResourceRequest& request) {
  if (!request.include.empty()) return include_hosts(pool, request.include);
  if (!request.exclude.empty()) return exclude_hosts(pool, request.exclude);
  std::vector<HostSlots> hosts;
  for (const Host& host : pool) {
    if (request.num_nodes && hosts.size() == *request.num_nodes) break;
    if (request.num_gpus && *request.num_gpus > host.slots) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("--num-gpus {}: {} has {} slots", *request.num_gpus, host.name, host.slots))
          .at({.key = "--num-gpus", .value = fmt::format("{}", *request.num_gpus)});
    }
    hosts.push_back({host.name, first_slots(request.num_gpus.value_or(host.slots))});
  }
  return hosts;
}

void require_some(const std::vector<HostSlots>& hosts) {
  if (hosts.empty())
    throw Error(ErrorCode::kUsage, "the filters leave no slot, expected at least one").at({.key = "--exclude"});
}

std::vector<HostSlots> visible_cards(const std::string& visible) {
  std::vector<std::uint64_t> ids;
  for (const std::string& part : split(visible, ',')) {
    std::uint64_t id = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (status != std::errc() || end != part.data() + part.size() || id >= kMostSlotsPerHost) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("CUDA_VISIBLE_DEVICES is {}, expected card numbers such as 0,2", visible))
          .at({.key = "CUDA_VISIBLE_DEVICES", .value = visible});
    }
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return {{"localhost", ids}};
}

}  // namespace

std::vector<HostSlots> include_hosts(const std::vector<Host>& pool, std::string_view filter) {
  const auto chosen = parse_filter(pool, filter, "include");
  std::vector<HostSlots> hosts;
  for (const Host& host : pool) {
    const auto it = chosen.find(host.name);
    if (it != chosen.end()) hosts.push_back({host.name, {it->second.begin(), it->second.end()}});
  }
  return hosts;
}

std::vector<HostSlots> exclude_hosts(const std::vector<Host>& pool, std::string_view filter) {
  const auto dropped = parse_filter(pool, filter, "exclude");
  std::vector<HostSlots> hosts;
  for (const Host& host : pool) {
    const auto it = dropped.find(host.name);
    std::vector<std::uint64_t> slots;
    for (std::uint64_t slot = 0; slot < host.slots; ++slot) {
      if (it == dropped.end() || !it->second.contains(slot)) slots.push_back(slot);
    }
    if (!slots.empty()) hosts.push_back({host.name, std::move(slots)});
  }
  return hosts;
}

std::uint64_t Resources::world_size() const {
  std::uint64_t ranks = 0;
  for (const HostSlots& host : hosts) ranks += host.slots.size();
  return ranks;
}

Resources resolve_pool(const std::vector<Host>& pool, const ResourceRequest& request) {
  check_request(request);
  if (request.num_nodes && *request.num_nodes > pool.size()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("--num-nodes {}: the hostfile names {} hosts", *request.num_nodes, pool.size()))
        .at({.key = "--num-nodes", .value = fmt::format("{}", *request.num_nodes)});
  }
  Resources resources;
  resources.hosts = narrowed(pool, request);
  require_some(resources.hosts);
  return resources;
}

Resources resolve_local(std::uint64_t cards, const std::optional<std::string>& visible,
                        const ResourceRequest& request) {
  check_request(request);
  if (request.num_nodes && *request.num_nodes > 1) {
    throw Error(ErrorCode::kUsage, fmt::format("--num-nodes {} (num_nodes): without a hostfile there is only this host",
                                               *request.num_nodes))
        .at({.key = "--num-nodes", .value = fmt::format("{}", *request.num_nodes)})
        .hint("name the hosts with --hostfile");
  }
  const bool narrowed_by_flags = !request.include.empty() || !request.exclude.empty() || request.num_gpus;
  Resources resources;
  if (visible && !visible->empty()) {
    if (!narrowed_by_flags) {
      resources.hosts = visible_cards(*visible);
      require_some(resources.hosts);
      return resources;
    }
    resources.warnings.push_back(
        fmt::format("CUDA_VISIBLE_DEVICES={} is ignored, because --include, --exclude or --num-gpus choose the cards "
                    "by physical number",
                    *visible));
  }
  if (cards == 0 && request.num_gpus) cards = *request.num_gpus;
  if (cards == 0) {
    throw Error(ErrorCode::kUsage, "this host has no GPU that could be counted, and no hostfile is given")
        .hint("say how many ranks with --num-gpus N or --local-gpus N");
  }
  resources.hosts = narrowed({{"localhost", cards}}, request);
  require_some(resources.hosts);
  return resources;
}

}  // namespace zeroplan::planner::deepspeed
