# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: auto_pickle=False, autotestdict=False
"""`nsq_anyio.protocol.frames` and `nsq_anyio.protocol.mpub_encoding`, compiled. They are the reference."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <structmember.h>

    /* The offset of a slot that `__slots__` made in `cls` or a base of it; 0 if `slot` is none. */
    static Py_ssize_t offset_of(PyTypeObject *cls, PyObject *slot) {
        PyMemberDef *member;
        if (!Py_IS_TYPE(slot, &PyMemberDescr_Type) || !PyType_IsSubtype(cls, PyDescr_TYPE(slot)))
            return 0;
        member = ((PyMemberDescrObject *)slot)->d_member;
        return member->type == T_OBJECT_EX && member->flags == 0 ? member->offset : 0;
    }

    /* Fill a slot of a new object: it is empty, and nobody else has the object. */
    static inline void fill(PyObject *owner, Py_ssize_t offset, PyObject *value) {
        *(PyObject **)((char *)owner + offset) = Py_NewRef(value);
    }
    """
    Py_ssize_t offset_of(type cls, object slot)
    void fill(object owner, Py_ssize_t offset, object value)
    PyTypeObject PyBaseObject_Type

cdef enum:
    RESPONSE = 0
    MESSAGE = 2
    SIZE = 4  # bytes of the size, and of the type
    HEADER = 8
    ATTEMPTS = 16  # where they begin in a message frame, as do the next two
    ID = 18
    BODY = 34
    HTTP = 0x48545450  # "HTTP"
    FIELDS = 6


@cython.final
cdef class FrameDecoder:
    """Turns received bytes into messages and other frames, as `nsq_anyio.protocol.frames.FrameDecoder` does.

    A class whose own ``_codec_slots`` names six slots is not called: the messages are made without ``__init__``.
    The source, timestamp, attempts, id and body go into the first five, None into the last.
    """

    cdef object make_message, max_frame_size, refusal
    cdef int64_t max_size, held, needed
    cdef list parts
    cdef bint fills_slots
    cdef Py_ssize_t[FIELDS] offsets

    def __cinit__(self, make_message, max_frame_size, refusal):
        self.make_message = make_message
        self.max_frame_size = max_frame_size
        self.max_size = min(max(max_frame_size, 0), 2**31 - 1)
        self.refusal = refusal
        self.parts = []
        self.held = 0
        self.needed = HEADER
        self.fills_slots = isinstance(make_message, type) and self.find_slots(make_message)

    @property
    def buffered(self):
        return self.held

    @property
    def missing(self):
        return self.needed - self.held

    @cython.critical_section
    def feed(self, data, source):
        cdef list messages = []
        cdef list frames = []
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        if self.parts:
            self.parts.append(data)
            self.held += len(<bytes>data)
            if self.held < self.needed:
                return messages, frames
            data = b"".join(self.parts)

        cdef const unsigned char* raw = <bytes>data
        cdef Py_ssize_t end = len(<bytes>data)
        cdef Py_ssize_t position = 0, rest
        cdef int64_t size, needed = HEADER  # a size near 2**31 and what is added to it are more than an int
        cdef int32_t frame_type
        while end - position >= HEADER:
            size = <int32_t>number(raw + position, SIZE)
            frame_type = <int32_t>number(raw + position + SIZE, SIZE)
            rest = end - position - SIZE
            if frame_type == MESSAGE and BODY - SIZE <= size <= self.max_size and size <= rest:
                messages.append(self.message(raw + position, size + SIZE, source))
            elif (
                size == HTTP
                or size > self.max_size
                or size < (BODY - SIZE if frame_type == MESSAGE else SIZE)
                or not RESPONSE <= frame_type <= MESSAGE
            ):
                raise self.refusal(size, frame_type, self.max_frame_size)
            elif size > rest:
                needed = SIZE + size
                break
            else:
                frames.append((frame_type, raw[position + HEADER : position + SIZE + size]))
            position += SIZE + size

        self.held = end - position
        self.parts = [raw[position:end]] if self.held else []
        self.needed = needed
        return messages, frames

    cdef message(self, const unsigned char* frame, Py_ssize_t length, source):
        timestamp = <int64_t>number(frame + HEADER, 8)
        attempts = <uint16_t>number(frame + ATTEMPTS, 2)
        message_id = frame[ID:BODY]
        body = frame[BODY:length]
        if not self.fills_slots:
            return self.make_message(source, timestamp, attempts, message_id, body)
        message = PyBaseObject_Type.tp_new(<type?>self.make_message, <PyObject*>(), NULL)
        fill(message, self.offsets[0], source)
        fill(message, self.offsets[1], timestamp)
        fill(message, self.offsets[2], attempts)
        fill(message, self.offsets[3], message_id)
        fill(message, self.offsets[4], body)
        fill(message, self.offsets[5], None)
        return message

    cdef bint find_slots(self, cls) except -1:
        names = vars(cls).get("_codec_slots", ())
        if len(names) != FIELDS or (<PyTypeObject*>cls).tp_new != PyBaseObject_Type.tp_new:
            return False
        for i, name in enumerate(names):
            self.offsets[i] = offset_of(cls, getattr(cls, name, None))
        return all(self.offsets)


def message_offsets(bytes data not None, Py_ssize_t position, max_frame_size):
    """Find message frames, as `nsq_anyio.protocol.frames.message_offsets` does."""
    cdef const unsigned char* raw = data
    cdef Py_ssize_t end = len(data)
    cdef int64_t max_size = min(max(max_frame_size, 0), 2**31 - 1)
    cdef int64_t size
    if not 0 <= position <= end <= 2**31 - 1:
        raise OverflowError("the offsets of these frames are no 32-bit integers")
    cdef Py_ssize_t most = (end - position) // BODY + 1  # a frame has so many bytes at least
    offsets = PyBytes_FromStringAndSize(NULL, most * <Py_ssize_t>sizeof(int32_t))
    cdef int32_t* found = <int32_t*>PyBytes_AS_STRING(offsets)
    cdef Py_ssize_t count = 1
    found[0] = <int32_t>position
    while end - position >= BODY:
        size = <int32_t>number(raw + position, SIZE)
        if (
            <int32_t>number(raw + position + SIZE, SIZE) != MESSAGE
            or not BODY - SIZE <= size <= max_size
            or size > end - position - SIZE
        ):
            break
        position += SIZE + size
        found[count] = <int32_t>position
        count += 1
    return offsets[: count * <Py_ssize_t>sizeof(int32_t)]


cdef inline uint64_t number(const unsigned char* at, int length) noexcept nogil:
    cdef uint64_t value = 0
    for i in range(length):
        value = value << 8 | at[i]
    return value


def plain_size(bodies, max_size):
    """Return the size of all bodies together, as `nsq_anyio.protocol.mpub_encoding.plain_size` does."""
    cdef Py_ssize_t size, total = 0
    cdef Py_ssize_t most = min(max_size, 2**31 - 1)
    for body in bodies:
        if type(body) is not bytes:
            return None
        size = len(<bytes>body)
        if not 0 < size <= most:
            return None
        total += size
    return total or None


def encode_bodies(bodies):
    """Return the body of ``MPUB``, as `nsq_anyio.protocol.mpub_encoding.encode_bodies` does."""
    cdef tuple given = tuple(bodies)  # which no other thread changes between the two loops
    cdef Py_ssize_t length = SIZE
    for body in given:
        length += SIZE + len(<bytes?>body)
    encoded = PyBytes_FromStringAndSize(NULL, length)
    cdef unsigned char* at = put_number(<unsigned char*>PyBytes_AS_STRING(encoded), len(given))
    for body in given:
        length = len(<bytes>body)
        at = put_number(at, length)
        memcpy(at, PyBytes_AS_STRING(<bytes>body), length)
        at += length
    return encoded


cdef inline unsigned char* put_number(unsigned char* at, Py_ssize_t value) noexcept nogil:
    cdef int i
    for i in range(SIZE):
        at[i] = value >> 8 * (SIZE - 1 - i) & 0xFF
    return at + SIZE
