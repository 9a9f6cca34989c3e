"""``format("nsq")``: NSQ as a source and a sink of Spark."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from ..errors import InvalidOption
from .options import ReadOptions, batch_read_options, read_options, write_options
from .schema import columns
from .writer import NsqStreamWriter, NsqWriter, check_columns


class NsqDataSource(DataSource):
    """Reads from a channel of NSQ, and writes to topics.

    ::

        spark.dataSource.register(NsqDataSource)
        rows = (
            spark.readStream.format("nsq")
            .options(topic="clicks", channel="archive", nsqlookupd="http://127.0.0.1:4161")
            .option("spoolDir", "/mnt/shared/nsq-spool")
            .load()
        )
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "nsq"

    def schema(self) -> str:
        """Return the schema of a read.

        :raises InvalidOption: naming the option that is unknown, missing or not valid
        """
        return _schema_of(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch job.

        :raises InvalidOption: for a bad option, or a schema of other columns
        """
        from .batch_reader import NsqBatchReader  # noqa: PLC0415 - writing needs none of it

        options = batch_read_options(self.options)
        _check_schema(schema, options)
        return NsqBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query; it raises the error of a bad option or schema."""
        # Writing needs none of it.
        from .stream_reader import NsqStreamReader, RefusedStreamReader  # noqa: PLC0415

        try:
            options = read_options(self.options)
            _check_schema(schema, options)
            return NsqStreamReader(options)
        except InvalidOption as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch job.

        :raises InvalidOption: for a bad option, columns that cannot be published, or ``overwrite``
        """
        if overwrite:
            raise InvalidOption('mode("overwrite") is not valid: NSQ can only append, so use mode("append")')
        options = write_options(self.options)
        check_columns(schema, options)
        return NsqWriter(options)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of a streaming query.

        :raises InvalidOption: for a bad option, columns that cannot be published, or ``overwrite``
        """
        if overwrite:
            raise InvalidOption(
                'outputMode("complete") is not valid: NSQ can only append, so use outputMode("append") or '
                '"update"'
            )
        options = write_options(self.options)
        check_columns(schema, options)
        return NsqStreamWriter(options)


def _schema_of(options: ReadOptions) -> str:
    return ", ".join(f"{name} {kind.upper()}" for name, kind in columns(headers=options.headers).items())


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if found != columns(headers=options.headers):
        raise InvalidOption(
            f"schema {schema.simpleString()} is not valid: leave it out, so that it is {_schema_of(options)}"
        )
