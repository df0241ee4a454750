"""Ridge regression by PyTorch on the sizes of `cargo bench -p pbt-gpu --bench ridge`: inner products, Cholesky's factor and
nine right sides in 64-bit floating point. Milliseconds by device events, median of 11; the whole call is wall time, with
vectors up (16 bits) and solutions down.
"""

import time

import torch

print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
print("| vectors x values | products, ms | factor, ms | nine sides, ms | whole call, ms |\n|---|---|---|---|---|")
for count, length in [(600, 3000), (1400, 4000), (2400, 3000), (3000, 4000)]:
    host = torch.randint(-4095, 4096, (count, length), dtype=torch.int16)
    sides = torch.ones(count, 9, dtype=torch.float64)
    ridge = 0.4 * length * 4095**2 / 3 * torch.eye(count, dtype=torch.float64, device="cuda")

    def median(call, wall=False):
        times = []
        for _ in range(13):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            began = time.perf_counter()
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - began) if wall else start.elapsed_time(end))
        return sorted(times[2:])[5]

    vectors, right = host.cuda().double(), sides.cuda()
    matrix = vectors @ vectors.T + ridge
    factor = torch.linalg.cholesky(matrix)

    def whole():
        v = host.cuda().double()
        return torch.cholesky_solve(sides.cuda(), torch.linalg.cholesky(v @ v.T + ridge)).cpu()

    figures = [
        median(lambda: vectors @ vectors.T),
        median(lambda: torch.linalg.cholesky(matrix)),
        median(lambda: torch.cholesky_solve(right, factor)),
    ]
    print(f"| {count} x {length} | " + " | ".join(f"{ms:.2f}" for ms in figures) + f" | {median(whole, True):.1f} |")
