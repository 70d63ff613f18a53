#include <cstdio>
#include <new>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/features.h"

namespace zeroplan::cli {
namespace {

/// A command with its sub-parser and the flags that all commands share.
struct Entry {
  std::unique_ptr<Command> command;
  CLI::App* app = nullptr;
};

bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--") return false;
    if (argument == "--json") return true;
  }
  return false;
}

void print(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', stream);
}

std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int report_error(const Error& error, bool json, int exit_code) {
  if (json) {
    print(stdout, dump(error_document(error)));
  } else {
    print(stderr, fmt::format("zeroplan: {}", error.message()));
    if (!error.hint().empty()) print(stderr, fmt::format("  hint: {}", error.hint()));
  }
  return exit_code;
}

void add_global_flags(CLI::App& app, GlobalOptions& options) {
  const std::map<std::string, ColorMode> modes = {
      {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
  app.add_flag("--json", options.json, "print one JSON document");
  app.add_flag("-q,--quiet", options.quiet, "no progress and no log");
  app.add_flag("-v,--verbose", options.verbose, "more log");
  // The list of values stands in the text: CLI11 would show them with the numbers behind them.
  app.add_option("--color", options.color, "colour: auto, always or never")
      ->transform(CLI::CheckedTransformer(modes).description(""))
      ->type_name("TEXT");
}

int print_version(bool json) {
  const Features features = find_features();
  if (json) {
    print(stdout, dump(features.to_json()));
  } else {
    print(stdout, features.to_text());
  }
  return kExitDone;
}

Error usage_error(const CLI::ParseError& e, const std::string& command) {
  const std::string help = command.empty() ? "zeroplan --help" : fmt::format("zeroplan {} --help", command);
  return Error(ErrorCode::kUsage, e.what()).hint(help);
}

int run_command(Entry& entry, const GlobalOptions& options) {
  const Answer answer = entry.command->run(options);
  if (!answer.is_silent) print(stdout, options.json ? dump(answer.document) : answer.text);
  return answer.exit_code;
}

}  // namespace

bool GlobalOptions::colored() const {
  return !json && (color == ColorMode::kAlways || (color == ColorMode::kAuto && ::isatty(STDOUT_FILENO) == 1));
}

Json error_document(const Error& error) {
  Json where = nullptr;
  const ErrorPlace& place = error.place();
  if (!place.empty()) {
    const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
    where = {{"file", text_or_null(place.file)},
             {"line", place.line ? Json(*place.line) : Json(nullptr)},
             {"column", place.column ? Json(*place.column) : Json(nullptr)},
             {"key", text_or_null(place.key)},
             {"value", text_or_null(place.value)}};
  }
  return {{"error",
           {{"code", to_string(error.code())},
            {"message", error.message()},
            {"where", where},
            {"hint", error.hint().empty() ? Json(nullptr) : Json(error.hint())}}}};
}

int run_program(int argc, const char* const* argv) {
  const bool json = wants_json(argc, argv);
  CLI::App app("zeroplan: plan, simulate and run the training of large transformers within the memory you have");
  app.name("zeroplan");
  app.require_subcommand(0, 1);
  bool version = false;
  GlobalOptions options;
  app.add_flag("--version", version, "version, commit and what was built in");
  add_global_flags(app, options);
  std::vector<Entry> entries;
  for (auto& command : make_commands()) {
    CLI::App* sub = app.add_subcommand(command->name(), command->description());
    add_global_flags(*sub, options);
    command->add_flags(*sub);
    entries.push_back({std::move(command), sub});
  }
  std::string chosen;
  try {
    app.parse(argc, argv);
    if (version) return print_version(options.json);
    for (Entry& entry : entries) {
      if (!entry.app->parsed()) continue;
      chosen = entry.command->name();
      return run_command(entry, options);
    }
    print(options.json ? stderr : stdout, app.help());
    if (options.json) throw Error(ErrorCode::kUsage, "no command was given").hint("zeroplan --help");
    return argc > 1 ? kExitInvalid : kExitDone;
  } catch (const CLI::CallForHelp&) {
    for (const Entry& entry : entries) {
      if (entry.app->parsed()) {
        print(stdout, entry.app->help());
        return kExitDone;
      }
    }
    print(stdout, app.help());
    return kExitDone;
  } catch (const CLI::ParseError& e) {
    for (const Entry& entry : entries) {
      if (entry.app->parsed()) chosen = entry.command->name();
    }
    return report_error(usage_error(e, chosen), json, kExitInvalid);
  } catch (const SaidElsewhere&) {
    return kExitNo;
  } catch (const RunFailed& e) {
    return report_error(e, json, kExitNo);
  } catch (const Error& e) {
    return report_error(e, json, e.code() == ErrorCode::kDoesNotFit ? kExitNo : kExitInvalid);
  } catch (const std::bad_alloc&) {
    return report_error(Error(ErrorCode::kIo, "this process ran out of host memory"), json, kExitNo);
  } catch (const std::exception& e) {
    return report_error(Error(ErrorCode::kInternal, e.what()).hint("this is a fault of zeroplan; please report it"),
                        json, kExitInvalid);
  }
}

}  // namespace zeroplan::cli
