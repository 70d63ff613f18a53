#include "planner/machine.h"

#include <cmath>

#include <fmt/format.h>

#include "models/core/text.h"

namespace zeroplan::planner {
namespace {

Json or_null(const std::optional<Bytes>& size) {
  return size ? Json(size->count()) : Json(nullptr);
}

std::optional<Bytes> size_at(const JsonView& view, std::string_view key) {
  if (!view.has(key)) return std::nullopt;
  return Bytes(view.at(key).as_count());
}

template <class Quantity>
Quantity rate_at(const JsonView& view, std::string_view key) {
  const double value = view.number_or(key, 0);
  if (value < 0) throw view.at(key).unexpected("a rate that is not negative");
  return Quantity(value);
}

Json gemm_json(const std::vector<GemmPoint>& points) {
  Json list = Json::array();
  for (const GemmPoint& p : points) {
    list.push_back({{"dtype", to_string(p.dtype)},
                    {"m", p.m},
                    {"n", p.n},
                    {"k", p.k},
                    {"ranks", p.ranks},
                    {"flops", p.flops.per_second()}});
  }
  return list;
}

Json cpu_ops_json(const std::vector<OpPoint>& points) {
  Json list = Json::array();
  for (const OpPoint& p : points) {
    list.push_back({{"op", p.op},
                    {"dtype", to_string(p.dtype)},
                    {"ranks", p.ranks},
                    {"work", p.work},
                    {"width", p.width},
                    {"depth", p.depth},
                    {"time_s", p.time.value()}});
  }
  return list;
}

/// fp32 where the document does not say.
DType dtype_from(const JsonView& point) {
  if (!point.has("dtype")) return DType::kFp32;
  const auto dtype = parse_dtype(point.at("dtype").as_string());
  if (dtype != DType::kFp32 && dtype != DType::kBf16 && dtype != DType::kFp16)
    throw point.at("dtype").unexpected("fp32, bf16 or fp16");
  return *dtype;
}

std::vector<GemmPoint> gemm_from(const JsonView& rates) {
  std::vector<GemmPoint> points;
  if (!rates.has("gemm")) return points;
  const JsonView list = rates.at("gemm");
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const JsonView item = list.at(i);
    points.push_back({dtype_from(item), item.at("m").as_count(), item.at("n").as_count(), item.at("k").as_count(),
                      item.count_or("ranks", 1), rate_at<FlopsPerSecond>(item, "flops")});
  }
  return points;
}

std::vector<OpPoint> cpu_ops_from(const JsonView& rates) {
  std::vector<OpPoint> points;
  if (!rates.has("cpu_ops")) return points;
  const JsonView list = rates.at("cpu_ops");
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const JsonView item = list.at(i);
    const double time = item.at("time_s").as_number();
    if (time < 0) throw item.at("time_s").unexpected("a time that is not negative");
    points.push_back({item.at("op").as_string(), dtype_from(item), item.count_or("ranks", 1),
                      item.at("work").as_count(), item.count_or("width", 1), item.count_or("depth", 1), Seconds(time)});
  }
  return points;
}

}  // namespace

void Machine::validate() const {
  if (gpus == 0 || nodes == 0 || gpus % nodes != 0) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("machine {}: {} GPUs on {} nodes, expected at least one GPU and as many on each node", name,
                            gpus, nodes))
        .at({.key = "gpus"});
  }
}

Json Machine::to_json() const {
  Json doc = {{"format", "zeroplan/machine"},
              {"version", 1},
              {"name", name},
              {"gpus", gpus},
              {"nodes", nodes},
              {"cores", cores},
              {"is_gpu", is_gpu},
              {"device_bytes", or_null(device_bytes)},
              {"context_bytes", context_bytes.count()},
              {"host_bytes", or_null(host_bytes)},
              {"disk_bytes", or_null(disk_bytes)}};
  doc["rates"] = {{"bf16_flops", rates.bf16_flops.per_second()},
                  {"fp32_flops", rates.fp32_flops.per_second()},
                  {"gemm", gemm_json(rates.gemm)},
                  {"cpu_ops", cpu_ops_json(rates.cpu_ops)},
                  {"device_bytes", rates.device_bytes.per_second()},
                  {"h2d_bytes", rates.h2d_bytes.per_second()},
                  {"d2h_bytes", rates.d2h_bytes.per_second()},
                  {"duplex_bytes", rates.duplex_bytes.per_second()},
                  {"link_bytes", rates.link_bytes.per_second()},
                  {"network_bytes", rates.network_bytes.per_second()},
                  {"host_bytes", rates.host_bytes.per_second()},
                  {"disk_read_bytes", rates.disk_read_bytes.per_second()},
                  {"disk_write_bytes", rates.disk_write_bytes.per_second()},
                  {"host_adam_params", rates.host_adam_params.per_second()}};
  doc["latencies"] = {{"kernel_s", latencies.kernel.value()},
                      {"task_s", latencies.task.value()},
                      {"collective_s", latencies.collective.value()},
                      {"network_s", latencies.network.value()},
                      {"disk_s", latencies.disk.value()}};
  doc["measured"] = measured ? Json{{"date", measured->date}, {"command", measured->command}} : Json(nullptr);
  return doc;
}

Machine Machine::from_json(const JsonView& view) {
  if (view.at("format").as_string() != "zeroplan/machine") throw view.at("format").unexpected("zeroplan/machine");
  if (view.at("version").as_count() != 1) throw view.at("version").unexpected("1");
  Machine m;
  m.name = view.at("name").as_string();
  m.gpus = view.at("gpus").as_count();
  m.nodes = view.count_or("nodes", 1);
  m.cores = view.count_or("cores", 0);
  m.device_bytes = size_at(view, "device_bytes");
  m.context_bytes = Bytes(view.count_or("context_bytes", 0));
  m.host_bytes = size_at(view, "host_bytes");
  m.disk_bytes = size_at(view, "disk_bytes");
  if (view.has("rates")) {
    const JsonView r = view.at("rates");
    m.rates.bf16_flops = rate_at<FlopsPerSecond>(r, "bf16_flops");
    m.rates.fp32_flops = rate_at<FlopsPerSecond>(r, "fp32_flops");
    m.rates.gemm = gemm_from(r);
    m.rates.cpu_ops = cpu_ops_from(r);
    m.rates.device_bytes = rate_at<BytesPerSecond>(r, "device_bytes");
    m.rates.h2d_bytes = rate_at<BytesPerSecond>(r, "h2d_bytes");
    m.rates.d2h_bytes = rate_at<BytesPerSecond>(r, "d2h_bytes");
    m.rates.duplex_bytes = rate_at<BytesPerSecond>(r, "duplex_bytes");
    m.rates.link_bytes = rate_at<BytesPerSecond>(r, "link_bytes");
    m.rates.network_bytes = rate_at<BytesPerSecond>(r, "network_bytes");
    m.rates.host_bytes = rate_at<BytesPerSecond>(r, "host_bytes");
    m.rates.disk_read_bytes = rate_at<BytesPerSecond>(r, "disk_read_bytes");
    m.rates.disk_write_bytes = rate_at<BytesPerSecond>(r, "disk_write_bytes");
    m.rates.host_adam_params = rate_at<ElementsPerSecond>(r, "host_adam_params");
  }
  m.is_gpu = view.bool_or("is_gpu", m.rates.h2d_bytes.known());
  if (view.has("latencies")) {
    const JsonView l = view.at("latencies");
    m.latencies.kernel = Seconds(std::max(0.0, l.number_or("kernel_s", 0)));
    m.latencies.task = Seconds(std::max(0.0, l.number_or("task_s", 0)));
    m.latencies.collective = Seconds(std::max(0.0, l.number_or("collective_s", 0)));
    m.latencies.network = Seconds(std::max(0.0, l.number_or("network_s", 0)));
    m.latencies.disk = Seconds(std::max(0.0, l.number_or("disk_s", 0)));
  }
  if (view.has("measured")) {
    m.measured = Measured{view.at("measured").at("date").as_string(), view.at("measured").at("command").as_string()};
  }
  m.validate();
  return m;
}

}  // namespace zeroplan::planner
