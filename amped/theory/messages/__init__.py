"""Which collectives are called: of what kind, with how many bytes, in which group, how often.

Takes the sizes of tensors, the mapping, and the parameters of stages. Hands on tuples of `Collective` records, a page
for each kind of parallelism. The next chapter gives their times.

    tensor, context, experts    in a layer, for each micro-batch
    pipeline                    between two stages, for each micro-batch
    data                        gradients and weights, as ZeRO shards them
    summa                       tensor parallelism on a grid: panels that are broadcast while the one before is
    multiplied

SUMMA is whole on its page. It therefore takes times of the chapters `links` and `layer`, which are exceptions to the
order.
"""

PAGES = ("tensor", "summa", "context", "experts", "data", "pipeline")
