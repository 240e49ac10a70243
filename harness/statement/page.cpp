#include "harness/statement/page.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/run/judgement.hpp"
#include "harness/run/quoted.hpp"
#include "harness/suite/toml_row.hpp"

namespace plumbline::statement {

using run::Judgement;
using suite::Level;

namespace {

using Row = std::vector<std::string>;

// What a page is made of, once for both forms.
struct Block {
  enum class Kind { heading, paragraph, table, code };
  Kind kind = Kind::paragraph;
  std::string text;       // of all but a table
  std::vector<Row> rows;  // of a table; the first is its head
};

std::string replaced(std::string text, const std::vector<std::pair<char, std::string_view>>& replacements) {
  std::string out;
  for (const char c : text) {
    const auto found = std::ranges::find(replacements, c, &std::pair<char, std::string_view>::first);
    if (found == replacements.end())
      out += c;
    else
      out += found->second;
  }
  return out;
}

// Words that somebody else wrote must not become marks of the page.
std::string in_markdown(const std::string& text) {
  return replaced(text, {{'\\', "\\\\"},
                         {'|', "\\|"},
                         {'<', "&lt;"},
                         {'\n', " "},
                         {'*', "\\*"},
                         {'_', "\\_"},
                         {'`', "\\`"},
                         {'[', "\\["}});
}
std::string in_html(const std::string& text) {
  return replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

// A cell's text: what stands before a list, and the items, which are lines that begin with "- ".
std::vector<std::string> listed(std::string_view cell) {
  constexpr std::string_view begin = "\n- ";
  std::vector<std::string> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = cell.find(begin);
    parts.emplace_back(cell.substr(0, end));
    if (end != std::string_view::npos) cell.remove_prefix(end + begin.size());
  }
  return parts;
}
std::string cell_in_markdown(const std::string& cell) {
  std::string out;
  for (const std::string& part : listed(cell)) out += (out.empty() ? "" : "<br>- ") + in_markdown(part);
  return out;
}
std::string cell_in_html(const std::string& cell) {
  const std::vector<std::string> parts = listed(cell);
  std::string out = in_html(parts.front());
  if (parts.size() == 1) return out;
  out += "<ul>";
  for (std::size_t i = 1; i < parts.size(); ++i) out += "<li>" + in_html(parts[i]) + "</li>";
  return out + "</ul>";
}

// ---- the page ----

std::vector<Row> figures(const Statement& statement) {
  std::vector<Row> rows{{"Requirements", "pass", "warning", "waived", "not claimed or not run"}};
  for (const Level level : {Level::must, Level::should, Level::may}) {
    Row row{level == Level::must ? "MUST hold" : level == Level::should ? "SHOULD hold" : "MAY hold, and are claimed"};
    int all = 0;
    for (const Judgement judgement : {Judgement::pass, Judgement::warn, Judgement::waived, Judgement::skip}) {
      const int count = statement.count(level, judgement);
      all += count;
      row.push_back(std::to_string(count));
    }
    if (all > 0) rows.push_back(row);
  }
  return rows;
}

std::vector<Row> facts(const Statement& statement) {
  const record::Header& header = statement.whole.header;
  const auto& seeds = header.statement_seeds;
  const auto ran = std::ranges::count_if(statement.whole.results,
                                         [](const auto& one) { return one.verdict != record::Verdict::skip; });
  std::vector<Row> rows{
      {"", ""},
      {"Subject", fmt::format("{} ({}); in the run it calls itself {}", statement.subject.product,
                              statement.subject.type, statement.calls_itself)},
      {"Home", statement.subject.url},
      {"Contact", statement.subject.contact},
      {"Made on", suite::text_of(statement.made)},
      {"Valid until", suite::text_of(statement.valid_until)},
      {"Device", header.facts.contains("device") ? header.facts.at("device") : "cpu"},
      {"Cases", fmt::format("{}, of which {} ran, each in fresh processes", statement.whole.results.size(), ran)},
      {"Arms", fmt::format("{}", fmt::join(statement.arms, ", "))},
      {"Seeds",
       fmt::format("{} (fixed), {} (of the release), {} (of this run)", seeds.at(0), seeds.at(1), seeds.at(2))},
      {"Duration", fmt::format("{:.0f} s", statement.whole.seconds)}};
  if (!statement.worlds.empty())
    rows.insert(rows.end() - 1, {"World sizes", fmt::format("{}", fmt::join(statement.worlds, ", "))});
  return rows;
}

std::vector<Row> requirements(const Statement& statement, Level level) {
  std::vector<Row> rows{{"id", "requirement", "outcome", "cases that ran"}};
  for (const Line& line : statement.lines)
    if (line.requirement->level == level)
      rows.push_back({line.requirement->id, line.requirement->text, outcome_of(line),
                      fmt::format("{} of {}", line.verdict.ran, line.verdict.cases)});
  return rows;
}

std::vector<Row> reasons(const Statement& statement) {
  std::vector<Row> rows{{"id", "outcome", "why"}};
  for (const Line& line : statement.lines)
    if (line.verdict.judgement != Judgement::pass) rows.push_back({line.requirement->id, outcome_of(line), line.why});
  return rows;
}

std::vector<Row> waivers(const Statement& statement) {
  std::vector<Row> rows{{"checks", "reason", "issue", "granted by", "until"}};
  for (const suite::Waiver* waiver : statement.waivers)
    rows.push_back({fmt::format("{}", fmt::join(waiver->checks, ", ")), waiver->reason, waiver->link, waiver->grantor,
                    suite::text_of(waiver->until)});
  return rows;
}

std::string flat(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [name, part] : value.items())
    parts.push_back(value.is_array() ? flat(part) : name + "=" + flat(part));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Row> environment(const Statement& statement) {
  std::vector<Row> rows{{"", ""}};
  for (const auto& [name, value] : statement.whole.header.environment.items()) {
    std::string label = name;
    std::ranges::replace(label, '_', ' ');
    rows.push_back({label, flat(value)});
  }
  const nlohmann::json runtime = statement.whole.subject.value("environment", nlohmann::json::object());
  for (const auto& [name, value] : runtime.items()) rows.push_back({name, flat(value)});
  return rows;
}

std::vector<Block> page_of(const Statement& statement) {
  using Kind = Block::Kind;
  std::vector<Block> page;
  const auto heading = [&](const std::string& text) { page.push_back({Kind::heading, text, {}}); };
  const auto paragraph = [&](const std::string& text) { page.push_back({Kind::paragraph, text, {}}); };
  const auto table = [&](std::vector<Row> rows) { page.push_back({Kind::table, {}, std::move(rows)}); };
  paragraph(statement.claim() + ".");
  paragraph(
      "Its vendor ran the suite and answers for the run. The files beside this page are the evidence: every "
      "result, the machine, and the commands that make them again.");
  if (const std::string changes = statement.changes(); !changes.empty())
    paragraph("Not the released suite: " + changes + ".");
  table(figures(statement));
  table(facts(statement));
  for (const auto& [level, title] : {std::pair{Level::must, "What MUST hold"},
                                     {Level::should, "What SHOULD hold"},
                                     {Level::may, "What is claimed beyond that"}})
    if (auto rows = requirements(statement, level); rows.size() > 1) {
      heading(title);
      table(std::move(rows));
    }
  if (auto rows = reasons(statement); rows.size() > 1) {
    heading("What is no pass, and why");
    table(std::move(rows));
  }
  if (!statement.waivers.empty()) {
    heading("Waivers");
    paragraph("The suite's maintainers granted these; the statement ends with the first of them.");
    table(waivers(statement));
  }
  heading("Machine");
  table(environment(statement));
  heading("Repeat and verify");
  paragraph(fmt::format("With plumbline {}; the first where the subject's files are, with this folder in place of `.`:",
                        statement.whole.header.suite_version));
  page.push_back(
      {Kind::code,
       "sh ./REPRODUCE.sh /tmp/again   # the run, with the same seeds\nplumbline verify .             # that the "
       "evidence is whole and says what this page says",
       {}});
  return page;
}

// The subject's part of the command line, without what belongs to that one run.
std::vector<std::string> subject_arguments(const std::vector<std::string>& arguments) {
  const std::set<std::string, std::less<>> of_the_run{"--out",   "--shard",        "--seed",    "--budget",
                                                      "--label", "--subject-name", "--progress"};
  std::vector<std::string> kept;
  for (std::size_t i = 2; i < arguments.size(); ++i) {  // after the program and "check"
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    if (name == "--resume") continue;
    if (!of_the_run.contains(name))
      kept.push_back(arguments[i]);
    else if (arguments[i] == name)
      ++i;  // its value
  }
  return kept;
}

constexpr const char* kStyle =
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse;margin:1rem 0;width:100%}"
    "th,td{border-bottom:1px solid #ccc;padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top;"
    "overflow-wrap:break-word}td ul{margin:.2rem "
    "0;padding-left:1.2rem}td:nth-child(2):last-child{overflow-wrap:anywhere}"
    "th{border-bottom-color:#666}td:first-child{white-space:nowrap}pre{background:#f3f3f3;padding:1rem;overflow:auto}"
    "p:first-of-type{font-size:1.3rem}@media print{body{margin:0;max-width:none}}";

}  // namespace

std::string reproduce_script(const Statement& statement) {
  const record::Header& header = statement.whole.header;
  std::string command = "plumbline check";
  for (const std::string& argument : subject_arguments(header.arguments)) command += " " + run::quoted(argument);
  return fmt::format(
      "#!/bin/sh\n"
      "# Runs again what STATEMENT.md rests on, with the same seeds. The subject must be installed here as it was "
      "there.\n"
      "set -eu\n"
      "case $(plumbline --version) in\n"
      "  'plumbline {0}') ;;\n"
      "  *) echo \"REPRODUCE.sh: plumbline {0} must be in PATH; here is $(plumbline --version)\" >&2; exit 3 ;;\n"
      "esac\n"
      "exec {1} --seed {2} --out \"${{1:?give a folder for the record}}\"\n",
      header.suite_version, command, header.statement_seeds.back());
}

std::string outcome_of(const Line& line) {
  const Judgement judgement = line.verdict.judgement;
  if (judgement == Judgement::skip)
    return line.why.ends_with("which the subject does not claim") ? "not claimed" : "not run";
  return judgement == Judgement::warn ? "warning" : std::string(name_of(judgement));
}

std::string markdown_of(const Statement& statement) {
  std::string out = "# Conformance statement\n";
  for (const Block& block : page_of(statement)) {
    out += '\n';
    switch (block.kind) {
      case Block::Kind::heading:
        out += fmt::format("## {}\n", in_markdown(block.text));
        break;
      case Block::Kind::paragraph:
        out += in_markdown(block.text) + '\n';
        break;
      case Block::Kind::code:
        out += fmt::format("```\n{}\n```\n", block.text);
        break;
      case Block::Kind::table:
        for (std::size_t i = 0; i < block.rows.size(); ++i) {
          for (const std::string& cell : block.rows[i]) out += fmt::format("| {} ", cell_in_markdown(cell));
          out += "|\n";
          if (i == 0) {
            for (std::size_t j = 0; j < block.rows[i].size(); ++j) out += "| --- ";
            out += "|\n";
          }
        }
        break;
    }
  }
  return out;
}

std::string html_of(const Statement& statement) {
  const std::string title = in_html(statement.claim());
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n<style>{}</style></head>\n<body>\n<h1>Conformance "
      "statement</h1>\n",
      title, kStyle);
  for (const Block& block : page_of(statement)) {
    switch (block.kind) {
      case Block::Kind::heading:
        out += fmt::format("<h2>{}</h2>\n", in_html(block.text));
        break;
      case Block::Kind::paragraph:
        out += fmt::format("<p>{}</p>\n", in_html(block.text));
        break;
      case Block::Kind::code:
        out += fmt::format("<pre>{}</pre>\n", in_html(block.text));
        break;
      case Block::Kind::table:
        out += "<table>\n";
        for (std::size_t i = 0; i < block.rows.size(); ++i) {
          const Row& row = block.rows[i];
          if (std::ranges::all_of(row, &std::string::empty)) continue;
          const char* const mark = i == 0 ? "th" : "td";
          out += "<tr>";
          for (const std::string& cell : row) out += fmt::format("<{0}>{1}</{0}>", mark, cell_in_html(cell));
          out += "</tr>\n";
        }
        out += "</table>\n";
        break;
    }
  }
  return out + "</body>\n</html>\n";
}

}  // namespace plumbline::statement
