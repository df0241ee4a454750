// Ridge regression: inner products of integer vectors, Cholesky's factors of their matrix and what they solve; the twin of `gram.rs` and
// `cholesky.rs` of `pbt-linear`. Integers are exact. Real sums have the order of the CPU: four interleaved ones a
// stretch of columns, products and sums apart (the compiler is told not to fuse them).

#include "constants.cuh"

typedef double f64;

// Values of each vector that a block holds at a time: as many products fit in 32 bits.
constexpr u32 DEPTH = 32;

// Threads along an edge of a block, of which there are RIDGE_THREADS in all, and products along an edge of a thread's part.
constexpr u32 ACROSS = 16, EACH = PRODUCTS / ACROSS;

// The tiles on and below the diagonal of the matrix of inner products, a block each.
extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
ridge_products(const short *vectors, u32 count, u32 length, f64 *matrix) {
    // Rows of tiles hold one, two, three … tiles.
    u32 row = (u32)((sqrt(8.0 * blockIdx.x + 1.0) - 1.0) / 2.0);
    while (row * (row + 1) / 2 > blockIdx.x) row--;
    while ((row + 1) * (row + 2) / 2 <= blockIdx.x) row++;
    u32 column = blockIdx.x - row * (row + 1) / 2;
    __shared__ __align__(16) int a[DEPTH][PRODUCTS + 4], b[DEPTH][PRODUCTS + 4];
    u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    s64 sums[EACH][EACH] = {};
    for (u32 first = 0; first < length; first += DEPTH) {
        u32 k = threadIdx.x % DEPTH;
        for (u32 v = threadIdx.x / DEPTH; v < PRODUCTS; v += RIDGE_THREADS / DEPTH) {
            auto value = [&](u32 vector) {
                bool inside = vector < count && first + k < length;
                return inside ? (int)vectors[(u64)vector * length + first + k] : 0;
            };
            a[k][v] = value(row * PRODUCTS + v);
            b[k][v] = value(column * PRODUCTS + v);
        }
        __syncthreads();
        int part[EACH][EACH] = {};
#pragma unroll
        for (u32 k = 0; k < DEPTH; k++) {
            int4 own = *(const int4 *)&a[k][EACH * y], others = *(const int4 *)&b[k][EACH * x];
            int p[EACH] = {own.x, own.y, own.z, own.w},
                q[EACH] = {others.x, others.y, others.z, others.w};
#pragma unroll
            for (u32 i = 0; i < EACH; i++)
#pragma unroll
                for (u32 j = 0; j < EACH; j++) part[i][j] += p[i] * q[j];
        }
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
#pragma unroll
            for (u32 j = 0; j < EACH; j++) sums[i][j] += part[i][j];
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < EACH; i++)
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            u32 r = row * PRODUCTS + EACH * y + i, c = column * PRODUCTS + EACH * x + j;
            if (r < count && c <= r) matrix[(u64)r * count + c] = (f64)sums[i][j];
        }
}

extern "C" __global__ void ridge_add_to_diagonal(f64 *matrix, u32 count, f64 ridge) {
    u32 n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < count) matrix[(u64)n * count + n] += ridge;
}

// What four interleaved sums make.
__device__ f64 total(const f64 *sums) {
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Columns of the matrix that a block of `ridge_update` holds at a time.
constexpr u32 CHUNK = 32, STRIDE = CHUNK + 2;

// Takes what the columns before a panel say from the panel's columns, on and below the diagonal: a block some rows.
extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
ridge_update(f64 *matrix, u32 count, u32 first) {
    __shared__ __align__(16) f64 a[PANEL_ROWS][STRIDE], b[PANEL][STRIDE];
    constexpr u32 DOWN = PANEL_ROWS / ACROSS, ALONG = PANEL / ACROSS;
    u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS, top = first + blockIdx.x * PANEL_ROWS;
    auto place = [&](u32 i, u32 j) {
        return matrix + (u64)(top + y + ACROSS * i) * count + first + x + ACROSS * j;
    };
    auto is_there = [&](u32 i, u32 j) {
        u32 r = top + y + ACROSS * i;
        return r < count && first + x + ACROSS * j <= r;
    };
    f64 left[DOWN][ALONG];
    for (u32 i = 0; i < DOWN; i++)
        for (u32 j = 0; j < ALONG; j++) left[i][j] = is_there(i, j) ? *place(i, j) : 0.0;
    for (u32 start = 0; start < first; start += STRETCH) {
        f64 sums[DOWN][ALONG][SUMS] = {};
        // Panels and stretches begin at multiples of a chunk.
        for (u32 from = start; from < min(start + STRETCH, first); from += CHUNK) {
            for (u32 n = threadIdx.x; n < (PANEL_ROWS + PANEL) * CHUNK; n += RIDGE_THREADS) {
                u32 v = n / CHUNK, k = n % CHUNK;
                u32 r = v < PANEL_ROWS ? top + v : first + v - PANEL_ROWS;
                f64 value = r < count ? matrix[(u64)r * count + from + k] : 0.0;
                (v < PANEL_ROWS ? a[v] : b[v - PANEL_ROWS])[k] = value;
            }
            __syncthreads();
#pragma unroll
            for (u32 k = 0; k < CHUNK; k += 2) {
                f64 p[DOWN][2], q[ALONG][2];
                for (u32 i = 0; i < DOWN; i++) {
                    f64 *row = a[y + ACROSS * i] + k;
                    p[i][0] = row[0], p[i][1] = row[1];
                }
                for (u32 j = 0; j < ALONG; j++) {
                    f64 *row = b[x + ACROSS * j] + k;
                    q[j][0] = row[0], q[j][1] = row[1];
                }
#pragma unroll
                for (u32 i = 0; i < DOWN; i++)
#pragma unroll
                    for (u32 j = 0; j < ALONG; j++)
#pragma unroll
                        for (u32 l = 0; l < 2; l++)
                            sums[i][j][(k + l) % SUMS] += p[i][l] * q[j][l];
            }
            __syncthreads();
        }
        for (u32 i = 0; i < DOWN; i++)
            for (u32 j = 0; j < ALONG; j++)
                left[i][j] -= total(sums[i][j]);
    }
    for (u32 i = 0; i < DOWN; i++)
        for (u32 j = 0; j < ALONG; j++)
            if (is_there(i, j)) *place(i, j) = left[i][j];
}

// The inner product of the first values of two rows, by four threads that follow each other in a warp,
// each of which has one of the four sums. All get it.
__device__ f64 product(const f64 *a, const f64 *b, u32 length, u32 lane) {
    u32 whole = length / SUMS * SUMS;
    f64 sum = 0.0, rest = 0.0;
    for (u32 k = lane; k < whole; k += SUMS) sum += a[k] * b[k];
    for (u32 k = whole; k < length; k++) rest += a[k] * b[k];
    // Sums 0 and 2, and 1 and 3; then these two. The order of two does not matter.
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    return rest + sum;
}

// Between rows in shared memory, so that threads of a warp read different banks.
constexpr u32 WIDE = PANEL + SUMS;

// The factor of the square on the diagonal, by one block of four threads a row.
extern "C" __global__ void __launch_bounds__(PANEL * SUMS)
ridge_square(f64 *matrix, u32 count, u32 first) {
    __shared__ f64 rows[PANEL][WIDE];
    u32 width = min(PANEL, count - first), r = threadIdx.x / SUMS, lane = threadIdx.x % SUMS;
    f64 *from = matrix + (u64)(first + r) * count + first;
    for (u32 c = lane; c < PANEL; c += SUMS) rows[r][c] = r < width && c <= r ? from[c] : 0.0;
    __syncthreads();
    for (u32 c = 0; c < width; c++) {
        // All threads of a warp take part in its sums, of rows above, too, where they are not kept.
        f64 own = rows[r][c] - product(rows[r], rows[c], c, lane);
        __syncthreads();
        if (r == c && lane == 0) {
            // The least positive number that is not denormal.
            rows[c][c] = sqrt(fmax(own, 2.2250738585072014e-308));
        }
        __syncthreads();
        if (r > c && lane == 0) rows[r][c] = own / rows[c][c];
        __syncthreads();
    }
    for (u32 c = lane; c <= r && r < width; c += SUMS) from[c] = rows[r][c];
}

// The panel's columns of the rows below its square, some rows a block, four threads a row.
extern "C" __global__ void __launch_bounds__(PANEL_ROWS * SUMS)
ridge_below(f64 *matrix, u32 count, u32 first) {
    __shared__ f64 square[PANEL * (PANEL + 1) / 2], rows[PANEL_ROWS][WIDE];
    u32 local = threadIdx.x / SUMS, lane = threadIdx.x % SUMS;
    u32 r = first + PANEL + blockIdx.x * PANEL_ROWS + local;
    for (u32 n = threadIdx.x; n < PANEL * PANEL; n += PANEL_ROWS * SUMS) {
        u32 i = n / PANEL, c = n % PANEL;
        if (c <= i) square[i * (i + 1) / 2 + c] = matrix[(u64)(first + i) * count + first + c];
    }
    f64 *from = matrix + (u64)r * count + first, *row = rows[local];
    for (u32 c = lane; c < PANEL; c += SUMS) row[c] = r < count ? from[c] : 0.0;
    __syncthreads();
    for (u32 c = 0; c < PANEL; c++) {
        const f64 *other = square + c * (c + 1) / 2;
        f64 own = (row[c] - product(row, other, c, lane)) / other[c];
        __syncwarp();
        if (lane == 0) row[c] = own;
        __syncwarp();
    }
    for (u32 c = lane; c < PANEL && r < count; c += SUMS) from[c] = row[c];
}

// Solves for a right side by the factor, in its place; a block a side, four threads a row. `sums` has four zeros for each
// number of the sides.
extern "C" __global__ void __launch_bounds__(RIDGE_THREADS)
ridge_substitute(const f64 *factor, u32 count, f64 *sides, f64 *sums) {
    __shared__ f64 square[PANEL][PANEL + 1], found[PANEL];
    f64 *side = sides + (u64)blockIdx.x * count, *own = sums + (u64)blockIdx.x * count * SUMS;
    u32 local = threadIdx.x / SUMS, lane = threadIdx.x % SUMS, panels = (count + PANEL - 1) / PANEL;
    auto load = [&](u32 first, u32 width) {
        for (u32 n = threadIdx.x; n < PANEL * PANEL; n += RIDGE_THREADS) {
            u32 r = n / PANEL, c = n % PANEL;
            if (r < width && c <= r) square[r][c] = factor[(u64)(first + r) * count + first + c];
        }
        if (threadIdx.x < width) found[threadIdx.x] = side[first + threadIdx.x];
        __syncthreads();
    };
    // L y = b, from the first row on. A row's product with what is known has four interleaved sums, which pass
    // from panel to panel, and the rest beyond the last four whole ones.
    for (u32 panel = 0; panel < panels; panel++) {
        u32 first = panel * PANEL, width = min(PANEL, count - first);
        load(first, width);
        f64 part[SUMS], rest = 0.0;
        if (threadIdx.x < width)
            for (u32 l = 0; l < SUMS; l++) part[l] = own[(u64)(first + threadIdx.x) * SUMS + l];
        for (u32 k = 0; k < width; k++) {
            u32 r = threadIdx.x;
            if (r == k) found[k] = (found[k] - (rest + total(part))) / square[k][k];
            __syncthreads();
            if (r > k && r < width) {
                f64 value = square[r][k] * found[k];
                // By hand, so that the sums stay in registers.
                if (k >= r / SUMS * SUMS) rest += value;
                else if (k % SUMS == 0) part[0] += value;
                else if (k % SUMS == 1) part[1] += value;
                else if (k % SUMS == 2) part[2] += value;
                else part[3] += value;
            }
        }
        if (threadIdx.x < width) side[first + threadIdx.x] = found[threadIdx.x];
        for (u32 r = first + PANEL + local; r < count; r += RIDGE_THREADS / SUMS) {
            const f64 *row = factor + (u64)r * count + first;
            f64 sum = own[(u64)r * SUMS + lane];
#pragma unroll
            for (u32 k = 0; k < PANEL; k += SUMS) sum += row[k + lane] * found[k + lane];
            own[(u64)r * SUMS + lane] = sum;
        }
        __syncthreads();
    }
    // Lᵀ x = y, from the last row on.
    for (u32 panel = panels; panel-- > 0;) {
        u32 first = panel * PANEL, width = min(PANEL, count - first);
        load(first, width);
        for (u32 k = width; k-- > 0;) {
            if (threadIdx.x == k) found[k] /= square[k][k];
            __syncthreads();
            if (threadIdx.x < k) found[threadIdx.x] -= square[k][threadIdx.x] * found[k];
        }
        if (threadIdx.x < width) side[first + threadIdx.x] = found[threadIdx.x];
        for (u32 c = threadIdx.x; c < first; c += RIDGE_THREADS) {
            f64 value = side[c];
#pragma unroll 8
            for (u32 k = width; k-- > 0;)
                value -= factor[(u64)(first + k) * count + c] * found[k];
            side[c] = value;
        }
        __syncthreads();
    }
}
