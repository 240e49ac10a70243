// reference/schedules/pipeline_layout.hpp: Megatron-LM's ways to say which layers a stage has.
//
// Model   A layout is a text, a character a layer: E embedding, t transformer layer, m multi-token prediction, L loss; |
//         ends a stage, commas mean nothing. Stage c x ranks + r is chunk c of rank r. Or nobody says, and the
//         embedding or the loss is counted as one more layer of an even split, so that the stage that has it gets a
//         transformer layer fewer.
// Text    (…)*N repeats what is between the parentheses, x*N the character before it, | included: "Et*3|(tt|)*29,m|L".
//         Groups first, without nesting, then characters, each in one pass over what the text has become: "(t|)*2*3" is
//         "t|t|||", as there.
// Cost    O(characters of the repeated text), which are 2^20 at most.
// Source  Megatron-LM core 0.19 transformer/pipeline_parallel_layer_layout.py; account_for_embedding_in_pipeline_split and
//         account_for_loss_in_pipeline_split of transformer_config.py.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {

enum class LayerKind : char { embedding = 'E', transformer = 't', multi_token_prediction = 'm', loss = 'L' };

struct PlacedLayer {
  LayerKind kind = LayerKind::transformer;
  std::size_t character = 1;  // of the given text, from 1: where it is written
  bool operator==(const PlacedLayer&) const = default;
};

struct PipelineLayout {
  std::vector<std::vector<PlacedLayer>> stages;  // from the input to the output; one may have no layer
};

/// Throws InvalidArgument, with the character and where it stands, for what is no layout, and for more than 2^20 characters
/// after repetition.
[[nodiscard]] PipelineLayout parse_pipeline_layout(std::string_view text);
/// A stage's layers as characters: "Ettt".
[[nodiscard]] std::string to_string(const std::vector<PlacedLayer>& stage);

/// What a layout has to be the layout of.
struct LayoutDemands {
  int ranks = 1;
  int transformer_layers = 0;
  std::optional<int> prediction_layers = {};  // nothing: none
};
/// Throws InvalidArgument, with the place of the layer that is wrong, unless the ranks divide the stages, the only embedding
/// is the first layer and the only loss the last, the layers are as many as demanded, and the multi-token prediction stands
/// behind every transformer layer, in one stage, and that its rank's last.
void require_layout(const PipelineLayout& layout, const LayoutDemands& demands);

/// Which of the model's layers of a kind each stage has.
[[nodiscard]] Boundaries boundaries_of(const PipelineLayout& layout, LayerKind kind);
/// Whether a rank other than the last has the multi-token prediction.
[[nodiscard]] bool has_standalone_prediction(const PipelineLayout& layout, int ranks);

/// What is counted as a layer beside the transformer layers: the embedding in the first stage, the loss in the last.
struct CountedEnds {
  bool embedding = false;
  bool loss = false;
};
/// Of the transformer layers, the boundaries of an even split of all that is counted, the larger parts first. Throws
/// InvalidArgument for parts < 1, layers < 0, and, where an end is counted, more parts than there are things to count.
[[nodiscard]] Boundaries partition_counted(int layers, int parts, const CountedEnds& counted);
/// The same for ranks x chunks parts. Throws InvalidArgument also unless the ranks divide what is counted, and the chunks a
/// rank's share of it.
[[nodiscard]] Boundaries megatron_counted(int layers, int ranks, int chunks, const CountedEnds& counted);

}  // namespace plumbline::schedules
