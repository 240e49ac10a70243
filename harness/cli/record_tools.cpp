// Commands that read records of runs: a Python package, results/plumbline_results, which the executable hands its
// arguments to. Statistics and pictures have libraries there.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/launch/process.hpp"
#include "harness/record/environment.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/torch_library.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

struct RecordTool {
  const char* name;
  const char* help;
};
constexpr std::array kTools{
    RecordTool{"compare", "Tell which measurements of two records, programs or backends differ"},
    RecordTool{"gate", "Fail when a measurement became slower, or contradicts another one"},
    RecordTool{"calibrate", "Measure which changes this machine can tell from its own noise"},
    RecordTool{"results", "Keep a history of records; export and import measurements"},
    RecordTool{"trend", "Find the runs of a history at which measurements changed"},
    RecordTool{"selftest", "Plant slowdowns and see whether the gate finds them"},
    RecordTool{"report", "Show records as a page, as Markdown or as the summary of a CI job"},
    RecordTool{"serve", "Serve the metrics of runs, also of those under way, to Prometheus"},
    RecordTool{"scoreboard", "Show what frameworks answer, with the cause of each disagreement"},
    RecordTool{"vectors", "Record frameworks' answers again, and compare them with those committed"},
    RecordTool{"trace", "Find which rank made a PyTorch job hang or diverge, from dumps or profiles of all ranks"},
};

struct Package {
  fs::path folder;   // which Python searches
  std::string name;  // by which it is imported
};

// In a wheel it is part of the importable package; else it lies with the other Python files.
Package package_of_tools() {
  const fs::path data = subject::data_folder();
  const fs::path prefix = data.parent_path().parent_path();
  std::error_code error;
  if (fs::exists(data / "python" / "plumbline_results", error)) return {data / "python", "plumbline_results"};
  if (fs::exists(prefix / "results" / "__main__.py", error))
    return {prefix.parent_path(), prefix.filename().string() + ".results"};
  throw subject::NotAvailable(fmt::format("'{}' is missing; it is part of every installation",
                                          (data / "python" / "plumbline_results").string()));
}

void prepend_to_python_path(const fs::path& folder) {
  const char* const before = std::getenv("PYTHONPATH");
  const std::string path =
      folder.string() + (before != nullptr && *before != '\0' ? ":" + std::string(before) : std::string());
  ::setenv("PYTHONPATH", path.c_str(), 1);
}

// Does not return: the tool's exit status is ours.
int become_tool(const std::string& name) {
  const Package package = package_of_tools();
  const std::string python = subject::chosen_python();
  if (!launch::find_program(python))
    throw subject::NotAvailable(
        fmt::format("{}: there is no program '{}'; install Python 3.9, or set PLUMBLINE_PYTHON to one", name, python));
  prepend_to_python_path(package.folder);
  std::error_code error;
  ::setenv("PLUMBLINE_EXECUTABLE", fs::read_symlink("/proc/self/exe", error).c_str(), 1);
  // CLI11 would take out a "--", which is the tool's.
  std::vector<std::string> words = record::command_line();
  words.erase(words.begin(), words.begin() + 1);
  const std::string start = std::string(kPythonStart) +
                            "import runpy; "
                            "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)";
  words.insert(words.begin(), {python, "-B", "-c", start, package.name});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw subject::NotAvailable(fmt::format("{}: cannot start '{}': {}", name, python, std::strerror(errno)));
}

}  // namespace

std::vector<std::pair<const CLI::App*, Command>> add_record_tools(CLI::App& app) {
  std::vector<std::pair<const CLI::App*, Command>> commands;
  for (const RecordTool& tool : kTools) {
    CLI::App* const command = app.add_subcommand(tool.name, tool.help);
    command->prefix_command();
    command->set_help_flag();  // the tool has its own
    commands.emplace_back(command, Command([name = std::string(tool.name)] { return become_tool(name); }));
  }
  return commands;
}

}  // namespace plumbline::cli
