#include <algorithm>

#include "reports/estimate_report.h"

namespace zeroplan::reports {
namespace {

using simulator::Tier;

Json deepspeed_json(const simulator::DeepspeedRow& row) {
  const auto place = [](bool offload) { return offload ? "cpu" : "none"; };
  return {{"stage", row.stage},
          {"offload_optimizer", place(row.offload_optimizer)},
          {"offload_param", row.offload_param ? Json(place(*row.offload_param)) : Json(nullptr)},
          {"zero_init", row.zero_init ? Json(*row.zero_init) : Json(nullptr)},
          {"gpu_bytes", row.gpu_bytes},
          {"cpu_bytes", row.cpu_bytes}};
}

struct Fit {
  Json word = nullptr;
  Json limit = nullptr;
};

Fit fit_of(const EstimateReport& report, const simulator::PeakPrediction& peak) {
  Fit fit;
  if (report.machine == nullptr) return fit;
  const planner::Machine& m = *report.machine;
  const auto consider = [&](std::string_view tier, std::uint64_t need, const std::optional<Bytes>& budget) {
    if (!budget) return;
    const std::string_view word = fit_word(need, budget->count());
    if (fit.word.is_null()) fit.word = "yes";
    if (word == "no" && fit.word != "no") fit = {"no", tier};
    if (word == "tight" && fit.word == "yes") fit = {"tight", tier};
  };
  consider("device", peak.process_bytes(), m.device_bytes);
  consider("host", peak.host_bytes, m.host_bytes);
  consider("disk", peak.disk_bytes, m.disk_bytes);
  return fit;
}

/// What fits the budget, and what to try: null without --budget.
Json changes_json(const PeakRow& row) {
  if (!row.budget) return nullptr;
  Json list = Json::array();
  for (const simulator::Change& c : row.budget->changes) {
    list.push_back({{"flags", c.flags},
                    {"why", c.why},
                    {"saved_bytes", c.saved_bytes},
                    {"process_bytes", c.process_bytes},
                    {"fits", c.fits ? "yes" : "no"}});
  }
  return list;
}

Json peak_json(const EstimateReport& report, const PeakRow& row) {
  const planner::TrainingSpec& spec = report.spec;
  const simulator::PeakPrediction& peak = row.peak;
  Json phases = Json::object();
  for (std::size_t i = 0; i < simulator::kPhases; ++i) {
    const auto& p = peak.phases[i];
    phases[std::string(simulator::to_string(static_cast<simulator::Phase>(i)))] =
        p ? Json{{"peak_bytes", p->peak}, {"end_bytes", p->end}} : Json(nullptr);
  }
  Json holders = Json::array();
  for (const simulator::Holder& h : peak.holders) holders.push_back({{"name", h.name}, {"bytes", h.bytes}});
  const Fit fit = fit_of(report, peak);
  return {{"framework", planner::name_of(spec.framework)},
          {"stage", row.strategy.stage},
          {"gpus", spec.gpus},
          {"nodes", spec.nodes},
          {"micro_batch", row.strategy.micro_batch},
          {"seq", spec.seq},
          {"precision", planner::name_of(spec.precision)},
          {"recompute", planner::name_of(row.strategy.recompute)},
          {"attention", planner::name_of(spec.attention)},
          {"optimizer", planner::name_of(spec.optimizer)},
          {"offload_optimizer", planner::to_string(row.strategy.offload_optimizer)},
          {"offload_param", planner::to_string(row.strategy.offload_param)},
          {"phase", simulator::to_string(peak.phase)},
          {"allocated_bytes", peak.allocated_bytes},
          {"reserved_bytes", peak.reserved_bytes},
          {"context_bytes", peak.context_bytes},
          {"process_bytes", peak.process_bytes()},
          {"host_bytes", peak.host_bytes},
          {"disk_bytes", peak.disk_bytes},
          {"phases", phases},
          {"holders", holders},
          {"fits", fit.word},
          {"limit", fit.limit},
          {"largest_micro_batch", row.budget ? Json(row.budget->largest_micro_batch) : Json(nullptr)},
          {"largest_seq", row.budget ? Json(row.budget->largest_seq) : Json(nullptr)},
          {"changes", changes_json(row)}};
}

Json tensors_json(const EstimateReport& report) {
  if (!report.with_tensors) return nullptr;
  Json tensors = Json::array();
  for (std::size_t i = 0; i < report.model->parameters.size(); ++i) {
    const models::Parameter& p = report.model->parameters[i];
    tensors.push_back(
        {{"name", p.name}, {"shape", p.shape.extents()}, {"trainable", static_cast<bool>(report.trained[i])}});
  }
  return tensors;
}

Json persistent_json(const EstimateReport& report) {
  if (!report.stage3) return nullptr;
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  for (const models::Parameter& p : report.model->parameters) {
    const std::uint64_t n = p.shape.elements().count();
    if (n > report.persistence_threshold) continue;
    ++tensors;
    elements += n;
  }
  return {{"threshold", report.persistence_threshold}, {"tensors", tensors}, {"elements", elements}};
}

/// Units of the same shape in a row are one entry.
Json units_json(const EstimateReport& report) {
  const models::Model& model = *report.model;
  const DType gathered = planner::compute_dtype(report.spec.precision);
  Json units = Json::array();
  for (const models::Unit& unit : model.units) {
    Elements all;
    Elements experts;
    for (const std::size_t index : unit.parameters) {
      const models::Parameter& p = model.parameters[index];
      all += p.shape.elements();
      if (p.is_expert) experts += p.shape.elements();
    }
    Json entry = {{"name", unit.name},
                  {"count", 1},
                  {"params", all.count()},
                  {"bytes", (all * gathered).count()},
                  {"expert_params", experts > Elements(0) ? Json(experts.count()) : Json(nullptr)},
                  {"expert_bytes", experts > Elements(0) ? Json((experts * gathered).count()) : Json(nullptr)}};
    if (!units.empty() && unit.kind == models::UnitKind::kBlock && units.back()["params"] == entry["params"] &&
        units.back()["expert_params"] == entry["expert_params"]) {
      units.back()["count"] = units.back()["count"].get<std::uint64_t>() + 1;
    } else {
      units.push_back(std::move(entry));
    }
  }
  return units;
}

Json allocations_json(const EstimateReport& report) {
  Json list = Json::array();
  if (report.peaks.empty()) return list;
  const std::uint64_t tokens = report.peaks.front().strategy.micro_batch * report.spec.seq;
  for (const simulator::Allocation& a : report.peaks.front().peak.allocations) {
    const bool per_token = a.bytes % tokens == 0 && a.shape.size() > 1;
    list.push_back({{"name", a.name},
                    {"dtype", to_string(a.dtype)},
                    {"shape", a.shape},
                    {"bytes", a.bytes},
                    {"bytes_per_token", per_token ? Json(a.bytes / tokens) : Json(nullptr)},
                    {"phase", simulator::to_string(a.phase)}});
  }
  return list;
}

}  // namespace

std::string_view fit_word(std::uint64_t need, std::uint64_t budget) {
  if (need > budget) return "no";
  return budget - need < budget / 10 ? "tight" : "yes";
}

Json states_json(planner::Framework framework, const StatesRow& row) {
  Json parts = Json::array();
  for (const simulator::StatePart& p : row.parts.parts) {
    parts.push_back({{"name", p.name}, {"tier", planner::name_of(p.tier)}, {"bytes", p.bytes.count()}});
  }
  return {{"framework", planner::name_of(framework)},
          {"stage", row.strategy.stage},
          {"offload_optimizer", planner::to_string(row.strategy.offload_optimizer)},
          {"offload_param", planner::to_string(row.strategy.offload_param)},
          {"gpu_bytes", row.parts.on(Tier::kDevice).count()},
          {"cpu_bytes", row.parts.on(Tier::kHost).count()},
          {"nvme_bytes", row.parts.on(Tier::kDisk).count()},
          {"parts", parts}};
}

Json estimate_document(const EstimateReport& report) {
  const models::Model& model = *report.model;
  const models::ParameterSummary& s = report.summary;
  Json document = {{"model", {{"name", model.name}, {"family", model.family}, {"source", model.source}}},
                   {"params",
                    {{"total", s.total.count()},
                     {"trainable", report.trainable.count()},
                     {"with_tied_twice", s.with_tied_twice.count()},
                     {"active", s.active.count()},
                     {"largest_module", s.largest_module.count()},
                     {"largest_module_name", s.largest_module_name},
                     {"tensor_count", s.tensor_count},
                     {"persistent", persistent_json(report)},
                     {"tensors", tensors_json(report)}}},
                   {"units", units_json(report)}};
  document["states"] = Json::array();
  for (const StatesRow& row : report.states) document["states"].push_back(states_json(report.spec.framework, row));
  document["deepspeed_table"] = Json::array();
  for (const simulator::DeepspeedRow& row : report.deepspeed)
    document["deepspeed_table"].push_back(deepspeed_json(row));
  document["peaks"] = Json::array();
  for (const PeakRow& row : report.peaks) document["peaks"].push_back(peak_json(report, row));
  document["allocations"] = allocations_json(report);
  const std::optional<Bytes> host = report.machine == nullptr ? std::nullopt : report.machine->host_bytes;
  document["load"] = {{"dtype", to_string(report.load.dtype)},
                      {"every_rank_bytes", report.load.every_rank.count()},
                      {"one_loader_bytes", report.load.one_loader.count()},
                      {"fits", host ? Json(report.load.every_rank <= *host ? "yes" : "no") : Json(nullptr)}};
  // Merging a sharded checkpoint reads fp32 master weights, with both moments or without; one tensor at a time needs
  // one tensor.
  std::uint64_t largest_tensor = 0;
  for (const models::Parameter& p : model.parameters)
    largest_tensor = std::max(largest_tensor, p.shape.elements().count());
  document["consolidate"] = {{"with_states_bytes", (s.total * DType::kFp32 * 3).count()},
                             {"weights_bytes", (s.total * DType::kFp32).count()},
                             {"streaming_bytes", (Elements(largest_tensor) * DType::kFp32).count()}};
  document["notes"] = report.notes;
  return document;
}

}  // namespace zeroplan::reports
