"""Data movement and memory layouts of an encoder layer: count, time, choose, run.

    spec, cost          the layer's operators (kernels/encoder_layer.json); their flop and words; what bounds them
    gemms, variables    every layout in which a contraction is one GEMM; the lean layouts of the fused kernels
    bench, table        times of each on this device
    graph, exact, plan  the layouts of all tensors that make the layer fastest
    encoder             a module that runs the choice

Source: Ivanov et al., Data Movement Is All You Need (MLSys 2021), and its public code; docs/data-movement.md says where
amped differs. Only the last two steps and the bench need torch.
"""
