"""The experiments of the paper's Section 5, through the public functions of batchsvm."""
