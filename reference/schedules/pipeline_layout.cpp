#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {
namespace {

constexpr std::size_t kMostCharacters = std::size_t{1} << 20;

// A character, and where in the given text it stands, from 1.
struct Symbol {
  char character;
  std::size_t place;
};
using Symbols = std::vector<Symbol>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "*12" at `at`: where it ends, and how often; nothing where there is no such thing.
struct Times {
  std::size_t end;
  std::size_t count;
};
std::optional<Times> times_at(const Symbols& text, std::size_t at) {
  if (at + 1 >= text.size() || text[at].character != '*' || !is_digit(text[at + 1].character)) return std::nullopt;
  Times times{.end = at + 1, .count = 0};
  for (; times.end < text.size() && is_digit(text[times.end].character); ++times.end)
    times.count = std::min(10 * times.count + static_cast<std::size_t>(text[times.end].character - '0'),
                           kMostCharacters + 1);  // more is refused in any case
  return times;
}

void repeat(const Symbols& text, std::size_t begin, std::size_t end, std::size_t count, Symbols& repeated) {
  if (count * (end - begin) + repeated.size() > kMostCharacters)
    throw InvalidArgument(fmt::format("pipeline layout: repeated, the text from character {} on has more than {}",
                                      text[begin].place, kMostCharacters));
  for (; count > 0; --count)
    for (std::size_t i = begin; i < end; ++i) repeated.push_back(text[i]);
}

// A group ends at the first parenthesis that closes, and is not empty.
std::size_t end_of_group(const Symbols& text, std::size_t open) {
  const auto close =
      std::ranges::find(text.begin() + static_cast<std::ptrdiff_t>(open), text.end(), ')', &Symbol::character);
  return static_cast<std::size_t>(close - text.begin());
}

Symbols with_groups_repeated(const Symbols& text) {
  Symbols repeated;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t close = text[i].character == '(' ? end_of_group(text, i) : 0;
    const std::optional<Times> times = close > i + 1 ? times_at(text, close + 1) : std::nullopt;
    repeat(text, times ? i + 1 : i, times ? close : i + 1, times ? times->count : 1, repeated);
    if (times) i = times->end - 1;
  }
  return repeated;
}

Symbols with_characters_repeated(const Symbols& text) {
  Symbols repeated;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::optional<Times> times = times_at(text, i + 1);
    repeat(text, i, i + 1, times ? times->count : 1, repeated);
    if (times) i = times->end - 1;
  }
  return repeated;
}

[[noreturn]] void refuse_symbol(const Symbol& symbol) {
  throw InvalidArgument(
      fmt::format("pipeline layout: {:?} at character {}; it is E (embedding), t (transformer layer), m (multi-token "
                  "prediction), L (loss) or |; a repetition is x*N or (...)*N, without parentheses inside",
                  symbol.character, symbol.place));
}

LayerKind layer_kind_of(const Symbol& symbol) {
  constexpr std::string_view kKinds = "EtmL";
  if (kKinds.find(symbol.character) == kKinds.npos) refuse_symbol(symbol);
  return static_cast<LayerKind>(symbol.character);
}

std::vector<PlacedLayer> flattened(const PipelineLayout& layout) {
  std::vector<PlacedLayer> layers;
  for (const auto& stage : layout.stages) layers.insert(layers.end(), stage.begin(), stage.end());
  return layers;
}

int count_of(const std::vector<PlacedLayer>& layers, LayerKind kind) {
  return static_cast<int>(std::ranges::count(layers, kind, &PlacedLayer::kind));
}

std::string words_of(const PlacedLayer& layer) {
  return fmt::format("'{}' at character {}", static_cast<char>(layer.kind), layer.character);
}

// The embedding is where the model begins and the loss where it ends, and nowhere else.
void require_ends(const std::vector<PlacedLayer>& layers) {
  if (layers.empty()) throw InvalidArgument("pipeline layout: there is no layer in it");
  const auto require = [&](const PlacedLayer& end, LayerKind kind, const char* which) {
    const char wanted = static_cast<char>(kind);
    if (end.kind != kind)
      throw InvalidArgument(
          fmt::format("pipeline layout: the {} layer is {}; it has to be '{}'", which, words_of(end), wanted));
    for (const PlacedLayer& layer : layers)
      if (layer.kind == kind && &layer != &end)
        throw InvalidArgument(
            fmt::format("pipeline layout: {} is the second; only the {} layer may be it", words_of(layer), which));
  };
  require(layers.front(), LayerKind::embedding, "first");
  require(layers.back(), LayerKind::loss, "last");
}

void require_count(const std::vector<PlacedLayer>& layers, LayerKind kind, int wanted) {
  if (const int count = count_of(layers, kind); count != wanted)
    throw InvalidArgument(
        fmt::format("pipeline layout: {} layers '{}', the model has {}", count, static_cast<char>(kind), wanted));
}

void require_prediction_placed(const PipelineLayout& layout, const std::vector<PlacedLayer>& layers, int ranks) {
  constexpr LayerKind prediction = LayerKind::multi_token_prediction;
  const auto first = std::ranges::find(layers, prediction, &PlacedLayer::kind);
  if (first == layers.end()) return;
  const auto after =
      std::find_if(first, layers.end(), [](const PlacedLayer& layer) { return layer.kind == LayerKind::transformer; });
  if (after != layers.end())
    throw InvalidArgument(
        fmt::format("pipeline layout: {} is after {}; it has to be before", words_of(*after), words_of(*first)));
  const auto has_it = [&](const std::vector<PlacedLayer>& stage) { return count_of(stage, prediction) > 0; };
  const auto stage = std::ranges::find_if(layout.stages, has_it);
  if (count_of(*stage, prediction) != count_of(layers, prediction))
    throw InvalidArgument(
        fmt::format("pipeline layout: from {} on, 'm' is in several stages; it is in one", words_of(*first)));
  if (const auto at = stage - layout.stages.begin(); at + ranks < std::ssize(layout.stages))
    throw InvalidArgument(fmt::format("pipeline layout: {} is in stage {}, which is not the last one of rank {}",
                                      words_of(*first), at, at % ranks));
}

}  // namespace

PipelineLayout parse_pipeline_layout(std::string_view text) {
  Symbols symbols;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != ',') symbols.push_back({text[i], i + 1});
  symbols = with_characters_repeated(with_groups_repeated(symbols));
  PipelineLayout layout{.stages = std::vector<std::vector<PlacedLayer>>(1)};
  for (const Symbol& symbol : symbols) {
    if (symbol.character == '|')
      layout.stages.emplace_back();
    else
      layout.stages.back().push_back({layer_kind_of(symbol), symbol.place});
  }
  return layout;
}

std::string to_string(const std::vector<PlacedLayer>& stage) {
  std::string text;
  for (const PlacedLayer& layer : stage) text += static_cast<char>(layer.kind);
  return text;
}

void require_layout(const PipelineLayout& layout, const LayoutDemands& demands) {
  const std::size_t stages = layout.stages.size();
  if (demands.ranks < 1 || stages % static_cast<std::size_t>(demands.ranks) != 0)
    throw InvalidArgument(
        fmt::format("pipeline layout: {} stages are no whole number of stages for {} ranks", stages, demands.ranks));
  const std::vector<PlacedLayer> layers = flattened(layout);
  require_ends(layers);
  require_count(layers, LayerKind::transformer, demands.transformer_layers);
  require_count(layers, LayerKind::multi_token_prediction, demands.prediction_layers.value_or(0));
  require_prediction_placed(layout, layers, demands.ranks);
}

Boundaries boundaries_of(const PipelineLayout& layout, LayerKind kind) {
  Boundaries boundaries{0};
  for (const auto& stage : layout.stages) boundaries.push_back(boundaries.back() + count_of(stage, kind));
  return boundaries;
}

bool has_standalone_prediction(const PipelineLayout& layout, int ranks) {
  for (std::size_t stage = 0; stage < layout.stages.size(); ++stage)
    if (count_of(layout.stages[stage], LayerKind::multi_token_prediction) > 0 &&
        static_cast<int>(stage) % ranks != ranks - 1)
      return true;
  return false;
}

Boundaries partition_counted(int layers, int parts, const CountedEnds& counted) {
  const int before = counted.embedding ? 1 : 0, ends = before + (counted.loss ? 1 : 0);
  if (layers < 0 || layers > std::numeric_limits<int>::max() - ends)
    throw InvalidArgument(
        fmt::format("partition: layers must be at least 0 and no more than an int holds, got {}", layers));
  if (ends > 0 && layers + ends < parts)
    throw InvalidArgument(
        fmt::format("partition: {} layers and {} of embedding and loss are fewer than {} parts", layers, ends, parts));
  Boundaries boundaries = partition_uniform(layers + ends, parts);
  for (std::size_t part = 1; part < boundaries.size(); ++part) boundaries[part] -= before;
  boundaries.back() = layers;
  return boundaries;
}

Boundaries megatron_counted(int layers, int ranks, int chunks, const CountedEnds& counted) {
  const std::int64_t all = std::int64_t{layers} + (counted.embedding ? 1 : 0) + (counted.loss ? 1 : 0);
  if (ranks < 1 || chunks < 1)
    throw InvalidArgument(fmt::format("partition: {} ranks with {} chunks make no parts", ranks, chunks));
  if (all % ranks != 0)
    throw InvalidArgument(
        fmt::format("partition: {} layers with those counted are no multiple of {} ranks", all, ranks));
  if (all / ranks % chunks != 0)
    throw InvalidArgument(
        fmt::format("partition: the {} layers of a rank are no multiple of {} chunks", all / ranks, chunks));
  if (std::int64_t{ranks} * chunks > std::numeric_limits<int>::max())
    throw InvalidArgument(
        fmt::format("partition: {} ranks x {} chunks are more parts than an int holds", ranks, chunks));
  return partition_counted(layers, ranks * chunks, counted);
}

}  // namespace plumbline::schedules
