"""A slow twin of the closed-form model: plain floats and loops, written from the specification and not from the code.

It counts products layer by layer and collectives call by call, and shares nothing with amped but names. `step` takes
SI numbers (bytes, seconds, flop/s) by canonical name and returns every part of a step, of the memory, and the rates.
"""

from math import ceil, fsum

REDUCED = 2  # an all-reduce carries the payload twice: reduce-scatter, then all-gather
SUBLAYERS = 2  # attention and feed-forward; each all-reduces its output over the tensor-parallel group
ALL_TO_ALLS = 2  # dispatch and combine


def is_mixture(p: dict, layer: int) -> bool:
    return layer < p["number_of_MoE_layers"]


def is_recomputed(p: dict, layer: int) -> bool:
    """Whether all of a layer is run forward again; with `block`, some layers of each stage."""
    if p["activation_recomputation"] == "block":
        return layer < p["number_of_recomputed_layers"] * p["pipeline_parallel_degree"]
    return p["activation_recomputation"] == "full"


# --- work of one layer for a number of tokens -----------------------------------------------------------------------


def attention_core_macs(p: dict, tokens: float) -> float:
    scores = tokens * p["context"] * p["attention_heads"] * p["head_dimension"]
    values = tokens * p["context"] * p["attention_heads"] * p["head_dimension"]
    return scores + values


def feedforward_macs(p: dict, tokens: float, hidden: float) -> float:
    macs = tokens * p["dimensionality"] * hidden  # up
    if p["gated_mlp"]:
        macs += tokens * p["dimensionality"] * hidden
    return macs + tokens * hidden * p["dimensionality"]  # down


def layer_macs(p: dict, layer: int, tokens: float) -> float:
    d, hd = p["dimensionality"], p["head_dimension"]
    macs = tokens * d * p["attention_heads"] * hd  # queries
    macs += tokens * d * p["key_value_heads"] * hd  # keys
    macs += tokens * d * p["key_value_heads"] * hd  # values
    macs += attention_core_macs(p, tokens)
    macs += tokens * p["attention_heads"] * hd * d  # output projection
    if not is_mixture(p, layer):
        return macs + feedforward_macs(p, tokens, p["feedforward_dimension"])
    macs += tokens * d * p["number_of_experts"]  # router
    for _ in range(int(p["experts_per_token"])):
        macs += feedforward_macs(p, tokens, p["expert_feedforward_dimension"])
    if p["number_of_shared_experts"]:
        macs += feedforward_macs(p, tokens, p["shared_experts_feedforward_dimension"])
    return macs


def softmax_operations(p: dict, tokens: float) -> float:
    return tokens * p["context"] * p["attention_heads"]


def nonlinear_operations(p: dict, layer: int, tokens: float) -> float:
    hidden = p["feedforward_dimension"]
    if is_mixture(p, layer):
        hidden = p["experts_per_token"] * p["expert_feedforward_dimension"]
        if p["number_of_shared_experts"]:
            hidden += p["shared_experts_feedforward_dimension"]
    return softmax_operations(p, tokens) + tokens * hidden


# --- parameters -----------------------------------------------------------------------------------------------------


def norm(p: dict) -> float:
    return p["norm_vectors"] * p["dimensionality"]


def feedforward_parameters(p: dict, hidden: float, biased: bool) -> float:
    ups = 2 if p["gated_mlp"] else 1
    count = ups * p["dimensionality"] * hidden + hidden * p["dimensionality"]
    return count + (ups * hidden + p["dimensionality"] if biased else 0)


def shared_layer_parameters(p: dict, layer: int) -> float:
    """All of a layer but its routed experts."""
    d, hd = p["dimensionality"], p["head_dimension"]
    projected = hd * (p["attention_heads"] + 2 * p["key_value_heads"])
    count = d * projected + (projected if p["query_key_value_bias"] else 0)
    count += p["attention_heads"] * hd * d + (d if p["attention_output_bias"] else 0)
    count += p["norms_per_layer"] * norm(p)
    if not is_mixture(p, layer):
        return count + feedforward_parameters(p, p["feedforward_dimension"], p["mlp_bias"])
    count += d * p["number_of_experts"]  # router
    if p["number_of_shared_experts"]:
        count += feedforward_parameters(p, p["shared_experts_feedforward_dimension"], p["mlp_bias"])
    return count


def routed_layer_parameters(p: dict, layer: int) -> float:
    if not is_mixture(p, layer):
        return 0.0
    return p["number_of_experts"] * feedforward_parameters(p, p["expert_feedforward_dimension"], False)


def embedding_parameters(p: dict) -> float:
    return (p["vocabulary_size"] + p["position_table"]) * p["dimensionality"]


def head_parameters(p: dict, own_matrix: bool) -> float:
    return norm(p) + (p["vocabulary_size"] * p["dimensionality"] if own_matrix else 0)


def number_of_parameters(p: dict) -> float:
    layers = fsum(shared_layer_parameters(p, i) + routed_layer_parameters(p, i) for i in range(int(p["layers"])))
    return layers + embedding_parameters(p) + head_parameters(p, own_matrix=not p["tied_embeddings"])


def parameters_per_accelerator(p: dict) -> tuple[float, float]:
    """Those outside and inside the routed experts, on the stage that has most."""
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    shared = fsum(shared_layer_parameters(p, i) for i in range(int(p["layers"]))) / pp
    routed = fsum(routed_layer_parameters(p, i) for i in range(int(p["layers"]))) / pp
    if pp > 1:  # the last stage needs the matrix too, tied or not
        shared += max(embedding_parameters(p), head_parameters(p, own_matrix=True))
    else:
        shared += embedding_parameters(p) + head_parameters(p, own_matrix=not p["tied_embeddings"])
    return shared / tp, routed / (p["expert_parallel_degree"] * tp)


# --- communication --------------------------------------------------------------------------------------------------


class Tier:
    """The links inside a node, or those across nodes, and how many of a group they join."""

    def __init__(self, members: float, bandwidth: float, latency: float) -> None:
        self.members, self.bandwidth, self.latency = members, bandwidth, latency

    def gather(self, payload: float) -> float:
        """Seconds of a ring all-gather (or reduce-scatter) that leaves `payload` bytes with each member."""
        steps = self.members - 1
        return steps * (payload / self.members / self.bandwidth + self.latency)


def inside(p: dict, members: float) -> Tier:
    rate = p["inter_accelerator_bandwidth"] * p["inter_accelerator_efficiency"]
    return Tier(members, rate, p["inter_accelerator_latency"])


def across(p: dict, members: float) -> Tier:
    node = p["number_of_network_cards_per_node"] * p["bandwidth_per_network_card"] / p["oversubscription"]
    one = node / p["number_of_accelerators_per_node"]
    return Tier(members, one * p["inter_node_efficiency"], p["inter_node_latency"])


def gathered(near: Tier, far: Tier, payload: float) -> float:
    return near.gather(payload) + far.gather(payload / near.members)


def reduced(near: Tier, far: Tier, payload: float) -> float:
    return REDUCED * gathered(near, far, payload)


def volume_reduced(near: Tier, far: Tier, payload: float) -> float:
    """An all-reduce so large that latency is not counted."""
    return reduced(Tier(near.members, near.bandwidth, 0.0), Tier(far.members, far.bandwidth, 0.0), payload)


def scattered(near: Tier, far: Tier, payload: float) -> float:
    """An all-to-all: what stays in the node goes over its links, the rest over the network."""
    stays = payload * (near.members - 1) / (near.members * far.members)
    leaves = payload * (far.members - 1) / far.members
    latency = (near.members - 1) * near.latency + (far.members - 1) * far.latency
    return stays / near.bandwidth + leaves / far.bandwidth + latency


# --- activations ----------------------------------------------------------------------------------------------------


def score_bytes(p: dict, tokens: float) -> float:
    """Softmax output, and with dropout its mask and what it leaves, for one layer."""
    if p["flash_attention"]:
        return 0.0
    entries = tokens * p["context"] * p["attention_heads"] / p["tensor_parallel_degree"]
    kept = entries * p["activation_precision"]
    if p["dropout"] > 0:
        kept += entries * 1 + entries * p["activation_precision"]
    return kept


def input_bytes(p: dict, tokens: float) -> float:
    whole = tokens * p["dimensionality"] * p["activation_precision"]
    return whole / p["tensor_parallel_degree"] if p["sequence_parallel"] else whole


def layer_bytes(p: dict, layer: int, tokens: float) -> float:
    """All that one layer keeps of one micro-batch when nothing is recomputed."""
    a, d, tp = p["activation_precision"], p["dimensionality"], p["tensor_parallel_degree"]
    unsplit = p["norms_per_layer"] * tokens * d * a  # inputs of the norms
    unsplit += 2 * tokens * d * a  # inputs of the projection and of the feed-forward
    if p["dropout"] > 0:
        unsplit += 2 * tokens * d * 1  # masks after both
    if p["sequence_parallel"]:
        unsplit /= tp
    split = tokens * p["attention_heads"] * p["head_dimension"] * a  # queries
    split += 2 * tokens * p["key_value_heads"] * p["head_dimension"] * a  # keys and values
    split += tokens * p["attention_heads"] * p["head_dimension"] * a  # input of the output projection
    copies = 3 if p["gated_mlp"] else 2  # (gate,) up, input of down
    if is_mixture(p, layer):
        split += copies * p["experts_per_token"] * tokens * p["expert_feedforward_dimension"] * a
        split += p["experts_per_token"] * tokens * d * a  # dispatched
        if p["number_of_shared_experts"]:
            split += copies * tokens * p["shared_experts_feedforward_dimension"] * a
    else:
        split += copies * tokens * p["feedforward_dimension"] * a
    return unsplit + split / tp + score_bytes(p, tokens)


def kept_bytes(p: dict, layer: int, tokens: float) -> float:
    if is_recomputed(p, layer):
        return input_bytes(p, tokens)
    if p["activation_recomputation"] == "selective":
        return layer_bytes(p, layer, tokens) - score_bytes(p, tokens)
    return layer_bytes(p, layer, tokens)


# --- one step -------------------------------------------------------------------------------------------------------


def memory(p: dict) -> dict:
    layers = range(int(p["layers"]))
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    shared, routed = parameters_per_accelerator(p)
    replicas = p["data_parallel_degree"] * p["context_parallel_degree"]
    routed_replicas = replicas / p["expert_parallel_degree"]

    def state(width: float, from_stage: int) -> float:
        if p["zero_stage"] >= from_stage:
            return width * (shared / replicas + routed / routed_replicas)
        return width * (shared + routed)

    flight = min(pp, p["number_of_microbatches_per_minibatch"])
    if p["virtual_pipeline_stages"] > 1:
        flight *= 1 + (pp - 1) / (pp * p["virtual_pipeline_stages"])
    temporary = 0.0
    if p["zero_stage"] >= 3 and replicas > 1:  # a layer's weights are whole while it runs
        whole = (shared_layer_parameters(p, i) / tp + routed_layer_parameters(p, i) / (p["expert_parallel_degree"] * tp)
                 for i in layers)  # fmt: skip
        temporary += max(whole) * p["weight_precision"]
    temporary += max((layer_bytes(p, i, tokens) for i in layers if is_recomputed(p, i)), default=0.0)
    if p["activation_recomputation"] == "selective":
        temporary += score_bytes(p, tokens)
    if pp == 1:
        temporary += tokens * p["vocabulary_size"] * p["logits_precision"] / tp
    return {
        "weight_bytes": state(p["weight_precision"], 3),
        "gradient_bytes": state(p["gradient_precision"], 2),
        "optimizer_state_bytes": state(p["optimizer_states_per_parameter"] * p["optimizer_state_precision"], 1),
        "activation_bytes": fsum(kept_bytes(p, i, tokens) for i in layers) / pp * flight,
        "temporary_bytes": temporary,
    }


def microbatch_tokens(p: dict) -> float:
    """Tokens of a micro-batch on one accelerator."""
    sequences = p["batch_size"] / p["data_parallel_degree"] / p["number_of_microbatches_per_minibatch"]
    return sequences * p["context"] / p["context_parallel_degree"]


def computation(p: dict) -> dict:
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    mac = 2 / (p["matrix_peak_flop_rate"] * p["matrix_efficiency"])
    width = p["multiply_accumulate_unit_width"]
    mac_forward = mac * ceil(p["weight_precision"] / width)
    mac_backward = mac * ceil(max(p["weight_precision"], p["gradient_precision"]) / width)
    nonlinear = ceil(p["activation_precision"] / p["nonlinear_unit_width"]) / p["nonlinear_operation_rate"]

    forward, backward, update, again = [], [], [], []
    for _ in range(int(p["number_of_microbatches_per_minibatch"])):
        for layer in range(int(p["layers"])):
            macs, operations = layer_macs(p, layer, tokens), nonlinear_operations(p, layer, tokens)
            forward.append(mac_forward * macs + nonlinear * operations)
            backward.append(mac_backward * macs + nonlinear * operations)
            update.append(mac_forward * macs)  # only U_b is said to take the wider of weights and gradients
            if is_recomputed(p, layer):
                again.append(mac_forward * macs + nonlinear * operations)
            if p["activation_recomputation"] == "selective":
                core = attention_core_macs(p, tokens)
                again.append(mac_forward * core + nonlinear * softmax_operations(p, tokens))
        head = tokens * p["dimensionality"] * p["vocabulary_size"]
        forward.append(mac_forward * head)
        backward.append(mac_backward * head)
        update.append(mac_forward * head)
    return {
        "compute_forward_time": fsum(forward) / tp / pp,
        "compute_backward_time": fsum(backward) / tp / pp,
        "recomputation_time": fsum(again) / tp / pp,
        "weight_update_time": fsum(update) / tp / pp,
    }


def communication(p: dict) -> dict:
    tp, pp = p["tensor_parallel_degree"], p["pipeline_parallel_degree"]
    tokens = microbatch_tokens(p)
    hidden = tokens * p["dimensionality"] * p["activation_precision"]

    def tiers(*kinds: str) -> tuple[Tier, Tier]:
        near = far = 1.0
        for kind in kinds:
            near *= p[f"intra_node_{kind}_parallel_degree"]
            far *= p[f"inter_node_{kind}_parallel_degree"]
        return inside(p, near), across(p, far)

    keys_and_values = tokens * p["context_parallel_degree"] * 2 * p["key_value_heads"] * p["head_dimension"]
    keys_and_values *= p["activation_precision"] / tp
    tensor, context, expert, boundary = [], [], [], []
    for _ in range(int(p["number_of_microbatches_per_minibatch"])):
        for layer in range(int(p["layers"])):
            for _ in range(3 if is_recomputed(p, layer) else 2):
                tensor += [reduced(*tiers("tensor"), hidden)] * SUBLAYERS
                context.append(gathered(*tiers("context"), keys_and_values))
                if is_mixture(p, layer):
                    payload = hidden * p["experts_per_token"] / tp
                    expert += [scattered(*tiers("expert"), payload)] * ALL_TO_ALLS
            context.append(gathered(*tiers("context"), keys_and_values))  # reduce-scatter of their gradients
        if pp > 1:
            near, far = tiers("pipeline")
            rate = far.bandwidth if far.members > 1 else near.bandwidth
            boundary += [hidden / tp / rate, hidden / tp / rate]  # activations on, gradients back

    shared, routed = parameters_per_accelerator(p)
    near, far = tiers("data", "context")
    data = volume_reduced(near, far, shared * p["gradient_precision"])
    expert_near, expert_far = tiers("expert")
    near = inside(p, near.members / expert_near.members)
    far = across(p, far.members / expert_far.members)
    data += volume_reduced(near, far, routed * p["gradient_precision"])
    sharded = 0.5 if p["zero_stage"] == 3 else 0.0
    return {
        "exposed_tensor_communication_time": fsum(tensor) / pp,
        "exposed_pipeline_communication_time": fsum(boundary),
        "exposed_data_communication_time": data * (1 + sharded),
        "exposed_context_communication_time": fsum(context) / pp,
        "exposed_expert_communication_time": fsum(expert) / pp,
    }


def flops(p: dict) -> dict:
    """Of the whole machine in a step, by the convention of Megatron-LM: all of attention counted."""
    tokens = p["batch_size"] * p["context"]
    macs = [layer_macs(p, i, tokens) for i in range(int(p["layers"]))]
    layers = fsum(macs)
    head = tokens * p["dimensionality"] * p["vocabulary_size"]
    again = fsum(macs[i] for i in range(int(p["layers"])) if is_recomputed(p, i))
    if p["activation_recomputation"] == "selective":
        again = attention_core_macs(p, tokens) * p["layers"]
    return {"model": 2 * 3 * (layers + head), "hardware": 2 * (3 * (layers + head) + again)}


def step(p: dict) -> dict:
    """Every part of one training step."""
    pp = p["pipeline_parallel_degree"]
    result = memory(p) | computation(p) | communication(p)
    traffic = 2 * result["weight_bytes"] + result["gradient_bytes"] + 2 * result["optimizer_state_bytes"]
    result["optimizer_time"] = traffic / p["memory_bandwidth"]
    busy = fsum(
        result[name]
        for name in (
            "compute_forward_time", "compute_backward_time", "recomputation_time", "weight_update_time",
            "exposed_tensor_communication_time",
        )
    )  # fmt: skip
    chunks = p["number_of_microbatches_per_minibatch"] * p["virtual_pipeline_stages"]
    result["pipeline_bubble_time"] = p["exposed_bubble_fraction"] * (pp - 1) / chunks * busy
    result["step_time"] = fsum(seconds for name, seconds in result.items() if name.endswith("_time"))
    machine = p["data_parallel_degree"] * p["tensor_parallel_degree"] * pp * p["context_parallel_degree"]
    for kind, count in flops(p).items():
        result[f"{kind}_flop_rate_per_accelerator"] = count / machine / result["step_time"]
    result["number_of_parameters"] = number_of_parameters(p)
    return result
