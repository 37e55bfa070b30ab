// amber amber amber amber amber amber amber amber amber amber amber amber
// amber amber amber amber amber amber amber amber amber amber amber amber
// amber
