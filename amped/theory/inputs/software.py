"""What a training framework makes of the machine: columns of `software_specifications`.

Each is something that a framework does or leaves undone. Without a row a framework fuses what Megatron-LM fuses, has the
newest attention kernel of its accelerator, and keeps the accelerator busy.
"""

import numpy as np

from amped.theory.quantity import MAPPING, parameter, quantity, selector

# --- attention -------------------------------------------------------------------------------------------------------


@selector("newest", "flash_2", "flash_1", "flex", category=MAPPING)
def attention_kernel():
    """The fused attention: the newest made for the accelerator, FlashAttention-2 or 1, or one compiled (FlexAttention).

    Source: arXiv 2205.14135; arXiv 2307.08691; arXiv 2407.08608; arXiv 2412.05496.
    """
    return "newest"


@quantity("1")
def attention_kernel_fraction(deterministic, deterministic_kernel_fraction):
    """Rate of the fused attention as a share of the newest one's, or of the newest that can be deterministic.

    Source: definition; NVIDIA Transformer Engine, get_attention_backend.
    """
    return np.where(deterministic > 0, deterministic_kernel_fraction, 1.0)


@quantity("1", choice="attention_kernel", value="flash_2")
def attention_kernel_fraction__flash_2(flash_2_attention_fraction):
    """Rate of FlashAttention-2 as a share of the newest kernel's. Source: the row of kernel_efficiencies."""
    return flash_2_attention_fraction


@quantity("1", choice="attention_kernel", value="flash_1")
def attention_kernel_fraction__flash_1(flash_1_attention_fraction):
    """Rate of FlashAttention-1 as a share of the newest kernel's. Source: the row of kernel_efficiencies."""
    return flash_1_attention_fraction


@parameter("1", category=MAPPING, above=0, at_most=1)
def flex_attention_fraction():
    """Rate of a compiled attention as a share of FlashAttention-2's: 0.9 forward and 0.85 backward, of 1 and 2.5 parts.

    Source: PyTorch blog, FlexAttention (2024-08-07), A100; from memory.
    """
    return 0.86


@quantity("1", choice="attention_kernel", value="flex")
def attention_kernel_fraction__flex(flash_2_attention_fraction, flex_attention_fraction):
    """Rate of a compiled attention as a share of the newest kernel's. Source: PyTorch blog, FlexAttention (2024-08-07)."""
    return flash_2_attention_fraction * flex_attention_fraction


@parameter("boolean", category=MAPPING)
def deterministic():
    """Whether every kernel must give the same bits each time. Source: Megatron-LM, --deterministic-mode."""
    return 0


@parameter("1", category=MAPPING, above=0, at_most=1)
def deterministic_attention_fraction():
    """Rate of a deterministic backward pass of attention as a share of one that adds up in any order.

    Source: Dao-AILab/flash-attention, deterministic=True (gradients of queries wait for one another), assumed.
    """
    return 0.75


@parameter("1", category=MAPPING, above=0, at_most=1)
def attention_dropout_fraction():
    """Rate of a fused attention that drops scores out as a share of one that does not; 1: costs nothing.

    Source: Dao-AILab/flash-attention pull requests 2597 (0.6 to 0.85 on GB200) and 2439 (0.85 to 1).
    """
    return 1


@parameter("1", category=MAPPING, above=0, at_most=1)
def context_parallel_attention_fraction():
    """Rate of a fused attention over shares of a sequence, computed block by block and joined, as a share of one over all of it.

    Source: definition; 1: blocks cost nothing. PyTorch, experimental context_parallel, merges blocks by kernels of its own.
    """
    return 1


@parameter("1", category=MAPPING)
def attention_head_ramp():
    """Width of a head at which a fused attention reaches half of what endless width would give it.

    Source: arXiv 2407.08608, figures 5 and 6 (H100, widths of 64 and 128: forward 0.66 to 0.9, backward 0.83 to 0.9).
    """
    return 28


# --- recomputation ---------------------------------------------------------------------------------------------------


@parameter("boolean", category=MAPPING)
def recomputation_stops_early():
    """Whether recomputing a layer stops as soon as all that its backward pass needs is there: before its last product.

    Source: PyTorch, torch.utils.checkpoint (set_checkpoint_early_stop, without reentry); Megatron-LM's runs to the end.
    """
    return 0


# --- sharded weights -------------------------------------------------------------------------------------------------


@parameter("1", category=MAPPING, at_most=1)
def prefetched_sharding_fraction():
    """Share of the traffic of sharded weights that starts in time to run beside computation, where it overlaps at all.

    Source: arXiv 2304.11277, section 3.3 (prefetching, and a limit on gathers in flight); definition for 1: all of it.
    """
    return 1


# --- the host --------------------------------------------------------------------------------------------------------


@parameter("s", category=MAPPING)
def host_time_per_layer():
    """Time of the host for a layer's forward pass, and again for its backward pass: no layer is faster.

    Source: definition; 0: only the launches of kernels count.
    """
    return 0


@parameter("s", category=MAPPING)
def host_time_per_step():
    """Time of a step in which the host keeps the accelerator waiting: data, checks of the loss, the optimizer's loop.

    Source: definition.
    """
    return 0


# --- memory ----------------------------------------------------------------------------------------------------------


@parameter("1", category=MAPPING)
def allocator_reserve_fraction():
    """Memory that the allocator holds beyond what is allocated at the peak, as a share of that.

    Source: PyTorch, CUDA caching allocator (torch.cuda.max_memory_reserved).
    """
    return 0


@parameter("count", category=MAPPING, at_least=0)
def cross_entropy_copies():
    """Copies of the logits in full precision that the loss needs beyond those that a fused one works on.

    Source: Megatron-LM, vocab_parallel_cross_entropy (works in place, 0); PyTorch, log_softmax and nll_loss (1).
    """
    return 0


@parameter("boolean", category=MAPPING)
def fused_cross_entropy():
    """Whether the loss is one kernel that reads the logits as the head wrote them, and writes their gradient over them.

    Source: Dao-AILab/flash-attention, losses/cross_entropy (inplace_backward); NVIDIA Transformer Engine, parallel_cross_entropy.
    """
    return 0


# --- what is not fused -----------------------------------------------------------------------------------------------


@parameter("1", category=MAPPING, at_least=1)
def streaming_traffic_factor():
    """Bytes that norms and element-wise operators of layers and ends move for each that fused kernels would.

    Eager frameworks launch a kernel for each operation, and each reads and writes its tensors.
    Source: arXiv 2007.00072, section 4 (fused and not); definition for 1: all fused.
    """
    return 1


@selector("fused", "separate", category=MAPPING)
def weight_gradient_accumulation():
    """Whether a weight's gradient is added to those of other micro-batches by its product, or by a kernel of its own.

    Source: Megatron-LM, --no-gradient-accumulation-fusion.
    """
    return "fused"


@selector("fused", "separate", category=MAPPING)
def expert_bias_addition():
    """Whether grouped products add the biases of experts, or kernels of their own, expert by expert.

    Source: NVIDIA Transformer Engine, GroupedLinear (fused); NVIDIA NeMo AutoModel, moe/experts.py (separate).
    """
    return "fused"


@selector("fused", "separate", category=MAPPING)
def expert_weighting():
    """Whether the experts' activation function multiplies with a token's probability too, or kernels of their own.

    Source: Megatron-Core, fused_bias_swiglu (fused), MLP.activation_func_with_probs (separate).
    """
    return "fused"


# --- mixtures of experts ---------------------------------------------------------------------------------------------


@parameter("boolean", category=MAPPING)
def deduplicated_dispatch():
    """Whether a token goes once to an accelerator with several of its experts, and once to a node, which hands it on.

    Source: deepseek-ai/DeepEP, README (normal kernels with NVLink and RDMA forwarding).
    """
    return 0


@selector("random", "in_turn", category=MAPPING)
def expert_assignment():
    """Which experts a token has: each as likely as any other, or those that follow the token's before it.

    Source: Megatron-LM, --moe-router-force-load-balancing (random); NVIDIA NeMo AutoModel, FakeBalancedGate (in turn).
    """
    return "random"
