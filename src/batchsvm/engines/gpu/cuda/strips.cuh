// Columns that many rows have are often neighbours, such as frequent words.  Additions that are near
// each other in memory wait for each other, so that neighbours are put into different strips: column
// j is at place j / STRIPS of strip j % STRIPS (sparse_rows.py).

__device__ inline long long place_of(int column, int strip) {
    return (long long)(unsigned(column) % STRIPS) * strip + unsigned(column) / STRIPS;
}
