"""What the formulas of all chapters speak of: frozen records, and tables of facts that several chapters name.

The files `*records` have records for plural things, `kernel_work` what kernels do, `resources` what may run beside
what, `parallelisms` and `shardings` one row for each. `places` and `conditions` have names that several pages share.
"""
