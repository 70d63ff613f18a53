#include "planner/program_json.h"

#include <fmt/format.h>

#include "planner/schedule/frame_packing.h"

namespace zeroplan::planner {

Json program_to_json(const models::Program& program) {
  Json temporaries = Json::array();
  for (const TemporaryLife& life : temporary_lives(program)) {
    const models::ProgramTensor& t = program.tensors[life.tensor];
    temporaries.push_back({{"name", t.name},
                           {"offset", t.offset.count()},
                           {"bytes", t.bytes().count()},
                           {"first", life.first},
                           {"last", life.last}});
  }
  return {{"name", program.name},
          {"frame_bytes", program.frame_bytes.count()},
          {"lower_bound_bytes", program.lower_bound_bytes.count()},
          {"temporaries", std::move(temporaries)}};
}

void read_program_frame(const JsonView& view, models::Program& program) {
  const auto expect = [](const JsonView& value, const Json& wanted) {
    if (value.json() != wanted) throw value.unexpected(fmt::format("{}, as the model demands", wanted.dump()));
  };
  expect(view.at("name"), program.name);
  const auto lives = temporary_lives(program);
  const JsonView list = view.at("temporaries");
  if (list.array_size() != lives.size()) throw list.unexpected(fmt::format("{} temporaries", lives.size()));
  Bytes end;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const JsonView item = list.at(i);
    models::ProgramTensor& t = program.tensors[lives[i].tensor];
    expect(item.at("name"), t.name);
    expect(item.at("bytes"), t.bytes().count());
    expect(item.at("first"), lives[i].first);
    expect(item.at("last"), lives[i].last);
    t.offset = Bytes(item.at("offset").as_count());
    end = std::max(end, t.offset + t.bytes());
  }
  program.frame_bytes = Bytes(view.at("frame_bytes").as_count());
  if (end > program.frame_bytes) throw view.at("frame_bytes").unexpected(fmt::format("at least {}", end.count()));
  expect(view.at("lower_bound_bytes"), program.lower_bound_bytes.count());
}

}  // namespace zeroplan::planner
